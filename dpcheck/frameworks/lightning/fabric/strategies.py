from dpcheck_intrinsics import set_attributes


class Strategy:
    def __init__(self, *args, **kwargs):
        set_attributes(self, kwargs)


class DDPStrategy(Strategy):
    pass


class FSDPStrategy(Strategy):
    """FSDP1: it copies weights only when `sync_module_states` is passed through."""

    def __init__(self, *args, sync_module_states=False, **kwargs):
        self.broadcasts = sync_module_states


class DeepSpeedStrategy(Strategy):
    pass


class ModelParallelStrategy(Strategy):
    pass


class SingleDeviceStrategy(Strategy):
    pass


class XLAStrategy(Strategy):
    pass


class DataParallelStrategy(SingleDeviceStrategy):
    pass


DDPSpawnStrategy = DDPStrategy
DDPShardedStrategy = DDPStrategy
DDPFullyShardedNativeStrategy = FSDPStrategy
DDPPlugin = DDPStrategy
DDPSpawnPlugin = DDPStrategy
DeepSpeedPlugin = DeepSpeedStrategy
