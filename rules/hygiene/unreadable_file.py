"""DP900: a selected file cannot be decoded or parsed."""

from dpcheck.rule import Group, Rule, Severity

RULE = Rule(
    "DP900",
    "unreadable-file",
    Group.HYGIENE,
    Severity.ERROR,
    "a selected file cannot be decoded or parsed, so nothing in it was checked",
)
