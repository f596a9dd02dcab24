from logging import Logger


class MultiProcessAdapter(Logger):
    """Logs on the main process, unless `main_process_only=False` asks for all."""


def get_logger(name, log_level=None):
    return MultiProcessAdapter(name)
