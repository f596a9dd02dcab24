from timm.scheduler import Scheduler
