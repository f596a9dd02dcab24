"""The built-in rules. `RULES` lists their modules, relative to this package, in the order of their codes.

`dpcheck.registry` imports them through the entry-point group `dpcheck.rules`, as it does the rules of other packages.
"""

RULES = (
    ".weights.unsynchronized_weights",
    ".weights.rank_seeded_weights",
    ".weights.unsynchronized_batchnorm",
    ".data.unsharded_loader",
    ".data.unsharded_stream",
    ".data.epoch_not_set",
    ".data.same_noise_on_every_rank",
    ".objective.per_rank_mean",
    ".objective.local_count",
    ".objective.missing_world_size_factor",
    ".objective.extra_world_size_factor",
    ".objective.mean_of_micro_batch_means",
    ".objective.detached_collective_in_loss",
    ".objective.local_batch_loss",
    ".objective.wrong_reduction_group",
    ".sync.sync_every_micro_batch",
    ".counting.padded_evaluation",
    ".hygiene.unreadable_file",
    ".hygiene.unused_suppression",
    ".hygiene.unknown_rule",
)
