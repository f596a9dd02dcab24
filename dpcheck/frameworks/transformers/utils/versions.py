def require_version(*args, **kwargs):
    pass
