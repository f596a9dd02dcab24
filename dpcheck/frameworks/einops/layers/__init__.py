from einops.layers import torch
