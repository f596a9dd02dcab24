from timm.scheduler import Scheduler

StepLRScheduler = Scheduler
