"""Tokens of one text are a list, of many texts a list of lists; without padding to a fixed length they are ragged."""

from dpcheck_intrinsics import (
    certainly,
    constant,
    evenness,
    kind_of,
    many,
    map_values,
    operation,
    read_from,
    record,
    uneven_count,
    unknown,
)


def BatchEncoding(data=None, *args, **kwargs):
    return {} if data is None else data


def unread(features):
    """A batch of unknown columns."""
    batch = {}
    batch[constant("str")] = unknown(features)
    return batch


class PreTrainedTokenizerBase:
    padding_side = "right"
    truncation_side = "right"
    model_input_names = ["input_ids", "attention_mask"]
    is_fast = True
    chat_template = None

    def __init__(self, *args, **kwargs):
        pass

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path=None, *args, **kwargs):
        return cls()

    vocab_size = property(lambda self: constant("int"))
    model_max_length = property(lambda self: constant("int"))
    all_special_ids = property(lambda self: [constant("int")])

    def __len__(self):
        return constant("int")

    def __call__(
        self,
        text=None,
        text_pair=None,
        text_target=None,
        add_special_tokens=True,
        padding=False,
        truncation=None,
        max_length=None,
        return_tensors=None,
        return_special_tokens_mask=False,
        return_offsets_mapping=False,
        return_length=False,
        return_overflowing_tokens=False,
        is_split_into_words=False,
        **kwargs,
    ):
        encoded = {}
        if text is not None:
            encoded = self._encoded(text, padding, return_tensors, is_split_into_words)
            if return_special_tokens_mask:
                encoded["special_tokens_mask"] = encoded["attention_mask"]
            if return_offsets_mapping:
                encoded["offset_mapping"] = unknown(text)
            if return_length:
                encoded["length"] = unknown(text)
        if text_target is not None:
            labels = self._encoded(text_target, padding, return_tensors)["input_ids"]
            if text is None:
                encoded["input_ids"] = labels
            else:
                encoded["labels"] = labels
        return encoded

    batch_encode_plus = __call__
    encode_plus = __call__

    def _encoded(self, text, padding, return_tensors, is_split_into_words=False):
        kind = kind_of(text)
        if is_split_into_words and kind == "sequence" and kind_of(text[0]) == "text":
            kind = "text"  # the words of one text
        token = read_from(text, "int", clean=True)
        if certainly(padding == "max_length"):
            # As many for each text, of which not all are padding.
            ids = many(token, True)
            mask = many(uneven_count("how much of it is padding differs"), True)
        elif kind_of(padding) == "unknown":
            ids = many(token, None)
            mask = many(token, None)
        else:
            length = uneven_count("sequences differ in length")
            ids = many(token, length)
            mask = many(1, length)
        encoded = {"input_ids": ids, "attention_mask": mask}
        if kind == "sequence":
            encoded = {name: [column for _ in text] for name, column in encoded.items()}
        if return_tensors is not None:
            if kind != "sequence":
                encoded = {name: [column] for name, column in encoded.items()}
            encoded = {name: operation("tensor", [column]) for name, column in encoded.items()}
        return encoded

    def encode(self, text, text_pair=None, *args, padding=False, return_tensors=None, **kwargs):
        return self(text, padding=padding, return_tensors=return_tensors)["input_ids"]

    def tokenize(self, text, *args, **kwargs):
        return many(read_from(text, "str"), uneven_count("texts differ in length"))

    def pad(
        self,
        encoded_inputs,
        padding=True,
        max_length=None,
        pad_to_multiple_of=None,
        return_attention_mask=None,
        return_tensors=None,
        **kwargs,
    ):
        """Rows of one length: that of the longest, or `max_length`."""
        features = encoded_inputs
        if kind_of(features) == "mapping":
            return map_values(lambda column: padded(column, padding), features)
        row = features[0]
        if kind_of(row) != "mapping":
            return unread(features)
        return {name: padded([feature[name] for feature in features], padding) for name in row}

    def apply_chat_template(
        self,
        conversation=None,
        *args,
        tokenize=True,
        padding=False,
        return_tensors=None,
        return_dict=False,
        return_assistant_tokens_mask=False,
        **kwargs,
    ):
        if certainly(not tokenize):
            return read_from(conversation, "str")
        token = read_from(conversation, "int", clean=True)
        length = uneven_count("conversations differ in length")
        ids = many(token, length)
        if return_tensors is not None:
            ids = operation("tensor", [[ids]])
        if certainly(return_dict):
            return {"input_ids": ids, "attention_mask": many(1, length), "assistant_masks": many(token, length)}
        return ids

    def convert_tokens_to_ids(self, tokens):
        if kind_of(tokens) == "sequence":
            return [read_from(token, "int", clean=True) for token in tokens]
        return read_from(tokens, "int", clean=True)

    def convert_ids_to_tokens(self, ids, *args, **kwargs):
        return unknown(ids)

    def decode(self, token_ids, *args, **kwargs):
        return read_from(token_ids, "str")

    def batch_decode(self, sequences, *args, **kwargs):
        return [read_from(sequence, "str") for sequence in sequences]

    def get_vocab(self):
        return {}

    def add_special_tokens(self, *args, **kwargs):
        return constant("int")

    def add_tokens(self, *args, **kwargs):
        return constant("int")

    def save_pretrained(self, save_directory, *args, **kwargs):
        record("write", self, path=save_directory)

    def push_to_hub(self, *args, **kwargs):
        pass

    def get_special_tokens_mask(self, token_ids, *args, **kwargs):
        return unknown(token_ids)

    def build_inputs_with_special_tokens(self, token_ids, *args):
        return token_ids

    def __getattr__(self, name):
        if name.endswith("_id"):
            return constant("int")
        return constant("str")


def padded(rows, padding=True):
    """A tensor of rows; as wide as the longest of them where they are known to differ."""
    if evenness(rows[0]) == "uneven" and not certainly(padding == "max_length"):
        return operation("pad_sequence", [[operation("tensor", [row]) for row in rows], True, 0])
    return operation("tensor", [rows])


class Processor(PreTrainedTokenizerBase):
    """Images and sounds besides texts."""

    size = constant()
    sampling_rate = constant("int")

    def __call__(self, *args, images=None, text=None, return_tensors=None, **kwargs):
        result = {}
        if text is not None:
            result = self._encoded(text, kwargs.get("padding", False), return_tensors)
        given = images if images is not None else args[0] if args else None
        if given is not None:
            pixels = operation("relu", [read_from(given, "tensor")])
            result["pixel_values"] = (
                [pixels for _ in given] if kind_of(given) == "sequence" and return_tensors is None else pixels
            )
            result["input_values"] = result["pixel_values"]
            result["input_features"] = result["pixel_values"]
        return result

    tokenizer = property(lambda self: PreTrainedTokenizerBase())
    image_processor = property(lambda self: self)
    feature_extractor = property(lambda self: self)

    def preprocess(self, images, *args, **kwargs):
        return self(images=images, **kwargs)

    def __getattr__(self, name):
        return constant()
