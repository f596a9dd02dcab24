"""Hugging Face Transformers 4.46 to 5.x.

Models and tokenizers are known by the pattern of their names: `LlamaForCausalLM`, `BertTokenizer`.
What a release does otherwise than another (the losses of encoder-decoder models under the Trainer) stays unknown.
"""

from dpcheck_intrinsics import constant, unknown

from transformers.configuration import PretrainedConfig
from transformers.data.data_collator import (
    DataCollatorForLanguageModeling,
    DataCollatorForSeq2Seq,
    DataCollatorForTokenClassification,
    DataCollatorForWholeWordMask,
    DataCollatorWithFlattening,
    DataCollatorWithPadding,
    DefaultDataCollator,
    default_data_collator,
)
from transformers.hf_argparser import HfArgumentParser
from transformers.modeling import (
    BaseModel,
    CausalLM,
    MaskedLM,
    ModelOutput,
    PreTrainedModel,
    QuestionAnswering,
    Seq2SeqLM,
    SequenceClassification,
    TokenClassification,
    UnknownHead,
)
from transformers.optimization import (
    AdamW,
    Adafactor,
    AdafactorSchedule,
    get_constant_schedule,
    get_constant_schedule_with_warmup,
    get_cosine_schedule_with_warmup,
    get_linear_schedule_with_warmup,
    get_scheduler,
)
from transformers.tokenization import BatchEncoding, PreTrainedTokenizerBase, Processor
from transformers.trainer import Seq2SeqTrainer, Trainer
from transformers.trainer_callback import EarlyStoppingCallback, TrainerCallback, TrainerControl, TrainerState
from transformers.trainer_utils import (
    EvalPrediction,
    IntervalStrategy,
    SchedulerType,
    enable_full_determinism,
    set_seed,
)
from transformers.training_args import Seq2SeqTrainingArguments, TrainingArguments

from transformers import integrations, trainer_utils, utils
from transformers.utils import logging

__version__ = "5.24.0"
__submodules__ = True

PreTrainedTokenizer = PreTrainedTokenizerBase
PreTrainedTokenizerFast = PreTrainedTokenizerBase


class Conv1D(BaseModel):
    pass


def pipeline(*args, **kwargs):
    return unknown()


def __getattr__(name):
    if name.endswith("ForCausalLM") or name.endswith("LMHeadModel"):
        return CausalLM
    if name.endswith("ForMaskedLM") or name.endswith("WithLMHead"):
        return MaskedLM
    if name.endswith("ForSequenceClassification") or name.endswith("ForImageClassification"):
        return SequenceClassification
    if name.endswith("ForAudioClassification") or name.endswith("ForMultipleChoice"):
        return SequenceClassification
    if name.endswith("ForTokenClassification"):
        return TokenClassification
    if name.endswith("ForQuestionAnswering"):
        return QuestionAnswering
    if name.endswith("ForConditionalGeneration") or name.endswith("ForSeq2SeqLM") or name.endswith("ForVision2Seq"):
        return Seq2SeqLM
    if name.endswith("ForSpeechSeq2Seq") or name.endswith("ForImageTextToText") or name.endswith("ForCTC"):
        return Seq2SeqLM
    if name.endswith("PreTrainedModel"):
        return PreTrainedModel
    if name.endswith("Config"):
        return PretrainedConfig
    if name.endswith("Tokenizer") or name.endswith("TokenizerFast"):
        return PreTrainedTokenizerBase
    if name.endswith("Processor") or name.endswith("FeatureExtractor") or name.endswith("ProcessorFast"):
        return Processor
    if name.endswith("Callback"):
        return TrainerCallback
    if name.endswith("Model") or name.endswith("Encoder") or name.endswith("Decoder") or name.endswith("Layer"):
        return BaseModel
    if name.endswith("Attention") or name.endswith("MLP") or name.endswith("Embeddings") or name.endswith("RMSNorm"):
        return BaseModel
    if name.startswith("AutoModel") or "For" in name:
        return UnknownHead
    if name.startswith("is_"):
        return lambda *args, **kwargs: constant("bool")
    if name.endswith("Output") or name.startswith("BaseModelOutput"):
        return ModelOutput
    return lambda *args, **kwargs: unknown(*args)
