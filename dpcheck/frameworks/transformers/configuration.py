from dpcheck_intrinsics import constant, set_attributes


class PretrainedConfig:
    """Settings of a model: the same on every rank."""

    def __init__(self, **kwargs):
        set_attributes(self, kwargs)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, **kwargs):
        return cls(**kwargs)

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        return cls(**kwargs)

    from_json_file = from_pretrained

    def update(self, values):
        set_attributes(self, values)

    def to_dict(self):
        return vars(self)

    def save_pretrained(self, save_directory, **kwargs):
        pass

    def get_text_config(self, *args, **kwargs):
        return self

    def __getattr__(self, name):
        return constant()


GenerationConfig = PretrainedConfig
