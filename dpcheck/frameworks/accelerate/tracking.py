class GeneralTracker:
    def __init__(self, *args, **kwargs):
        pass
