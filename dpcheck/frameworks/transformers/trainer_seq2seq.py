from transformers.trainer import Seq2SeqTrainer
