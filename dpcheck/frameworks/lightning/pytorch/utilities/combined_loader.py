def CombinedLoader(iterables, mode="min_size"):
    return iterables
