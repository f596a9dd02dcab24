from timm.scheduler import Scheduler

CosineLRScheduler = Scheduler
