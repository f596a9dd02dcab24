from torch.utils.data import RandomSampler
from torch.utils.data.distributed import DistributedSampler


class StatefulDistributedSampler(DistributedSampler):
    def state_dict(self):
        return {}

    def load_state_dict(self, state_dict):
        pass
