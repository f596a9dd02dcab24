from transformers.data.data_collator import *
