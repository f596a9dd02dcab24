from deepspeed.ops import adam
