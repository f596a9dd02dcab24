from transformers.tokenization import BatchEncoding, PreTrainedTokenizerBase


class PaddingStrategy:
    LONGEST = "longest"
    MAX_LENGTH = "max_length"
    DO_NOT_PAD = "do_not_pad"


class TruncationStrategy:
    ONLY_FIRST = "only_first"
    LONGEST_FIRST = "longest_first"
    DO_NOT_TRUNCATE = "do_not_truncate"
