from transformers.configuration import PretrainedConfig

PreTrainedConfig = PretrainedConfig
