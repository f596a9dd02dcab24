from contextlib import contextmanager

from dpcheck_intrinsics import module_call, record, wrap

from torch.nn import Module


class DistributedDataParallel(Module):
    """Copies rank 0's parameters and buffers to all ranks when it is made, and averages gradients during backward."""

    def __init__(
        self,
        module,
        device_ids=None,
        output_device=None,
        dim=0,
        broadcast_buffers=True,
        init_sync=True,
        process_group=None,
        bucket_cap_mb=None,
        find_unused_parameters=False,
        check_reduction=False,
        gradient_as_bucket_view=False,
        static_graph=False,
        **kwargs,
    ):
        super().__init__()
        self.module = module
        self.require_backward_grad_sync = True
        wrap(self, module, "DDP", broadcasts=init_sync, group=process_group, broadcast_buffers=broadcast_buffers, find_unused_parameters=find_unused_parameters, armed=True)

    def forward(self, *args, **kwargs):
        return module_call(self, self.module, args, kwargs)

    @contextmanager
    def no_sync(self):
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        yield
        self.require_backward_grad_sync = before

    @contextmanager
    def join(self, divide_by_initial_world_size=True, enable=True, throw_on_early_termination=False):
        record("join", self)
        yield

    def register_comm_hook(self, state, hook):
        pass

    def _set_static_graph(self):
        pass


class DataParallel(Module):
    """One process drives all devices: not data-parallel in the sense of this tool."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module = module

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)
