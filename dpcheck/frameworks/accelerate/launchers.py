from dpcheck_intrinsics import launch


def notebook_launcher(function, args=(), num_processes=None, **kwargs):
    launch(function, args, ranked=False)


def debug_launcher(function, args=(), num_processes=2):
    launch(function, args, ranked=False)
