"""Collators. Evidence that labels are ignored stands where the collator is made, since there it was chosen."""

from dpcheck_intrinsics import evenness, kind_of, operation

from transformers.tokenization import padded, unread

from torch.utils.data import default_collate


def default_data_collator(features, return_tensors="pt"):
    row = features[0]
    if kind_of(row) != "mapping":
        return default_collate(features)
    batch = {}
    for name in row:
        column = [feature[name] for feature in features]
        if name == "label" or name == "label_ids":
            batch["labels"] = operation("tensor", [column])
        elif kind_of(row[name]) == "tensor":
            batch[name] = operation("stack", [column])
        else:
            batch[name] = operation("tensor", [column])
    return batch


class DataCollatorMixin:
    def __call__(self, features, return_tensors=None):
        return self.torch_call(features)


class DefaultDataCollator(DataCollatorMixin):
    def __init__(self, return_tensors="pt"):
        pass

    def __call__(self, features, return_tensors=None):
        return default_data_collator(features)


class DataCollatorWithPadding(DataCollatorMixin):
    def __init__(self, tokenizer=None, padding=True, max_length=None, pad_to_multiple_of=None, return_tensors="pt"):
        self.tokenizer = tokenizer
        self.padding = padding

    def __call__(self, features, return_tensors=None):
        row = features[0]
        if kind_of(row) != "mapping":
            return unread(features)
        batch = {}
        for name in row:
            column = [feature[name] for feature in features]
            if name == "label" or name == "label_ids" or name == "labels":
                batch["labels"] = operation("tensor", [column])
            else:
                batch[name] = padded(column, self.padding)
        return batch


class DataCollatorForTokenClassification(DataCollatorMixin):
    """Labels are padded with -100 to the length of the tokens."""

    def __init__(
        self,
        tokenizer=None,
        padding=True,
        max_length=None,
        pad_to_multiple_of=None,
        label_pad_token_id=-100,
        return_tensors="pt",
    ):
        self.tokenizer = tokenizer
        self.padding = padding
        self.label_pad_token_id = label_pad_token_id

    def __call__(self, features, return_tensors=None):
        row = features[0]
        if kind_of(row) != "mapping":
            return unread(features)
        batch = {}
        for name in row:
            column = [feature[name] for feature in features]
            if name == "label" or name == "labels":
                batch["labels"] = self.padded_labels(column)
            else:
                batch[name] = padded(column, self.padding)
        return batch

    def padded_labels(self, column):
        if evenness(column[0]) == "uneven":
            rows = [operation("tensor", [row]) for row in column]
            return operation("pad_sequence", [rows, True, self.label_pad_token_id], at=self)
        return operation("tensor", [column])


class DataCollatorForSeq2Seq(DataCollatorForTokenClassification):
    def __init__(
        self,
        tokenizer=None,
        model=None,
        padding=True,
        max_length=None,
        pad_to_multiple_of=None,
        label_pad_token_id=-100,
        return_tensors="pt",
    ):
        self.tokenizer = tokenizer
        self.padding = padding
        self.label_pad_token_id = label_pad_token_id


class DataCollatorForLanguageModeling(DataCollatorMixin):
    """Masked: labels are -100 except where a token was masked at random. Causal: except where the input is padding."""

    def __init__(self, tokenizer=None, mlm=True, mlm_probability=0.15, pad_to_multiple_of=None, **kwargs):
        self.tokenizer = tokenizer
        self.mlm = mlm

    def __call__(self, features, return_tensors=None):
        row = features[0]
        if kind_of(row) == "mapping":
            batch = {name: padded([feature[name] for feature in features]) for name in row}
        else:
            batch = {"input_ids": operation("tensor", [features])}
        if "input_ids" not in batch:
            return unread(features)
        if self.mlm:
            batch["input_ids"], batch["labels"] = self.torch_mask_tokens(batch["input_ids"])
        else:
            labels = operation("clone", [batch["input_ids"]])
            if evenness(labels) == "uneven":
                labels = operation("masked_fill", [labels, labels == self.tokenizer.pad_token_id, -100], at=self)
            batch["labels"] = labels
        return batch

    def torch_mask_tokens(self, inputs, special_tokens_mask=None):
        masked = operation("bernoulli", [operation("rand_like", [inputs])])
        labels = operation("masked_fill", [inputs, ~masked, -100], at=self)
        return inputs, labels

    mask_tokens = torch_mask_tokens


class DataCollatorForWholeWordMask(DataCollatorForLanguageModeling):
    pass


class DataCollatorWithFlattening(DefaultDataCollator):
    """All rows in one long row: the first label of each is -100."""

    def __init__(self, *args, **kwargs):
        pass

    def __call__(self, features, return_tensors=None):
        return unread(features)


class DataCollatorForMultipleChoice(DataCollatorWithPadding):
    pass
