from timm.optim import Lookahead
