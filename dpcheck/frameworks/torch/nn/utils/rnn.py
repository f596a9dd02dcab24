from dpcheck_intrinsics import operation


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    return operation("pad_sequence", [sequences, batch_first, padding_value])


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    return input


def pad_packed_sequence(sequence, *args, **kwargs):
    return sequence, None


def pack_sequence(sequences, enforce_sorted=True):
    return operation("cat", [sequences])
