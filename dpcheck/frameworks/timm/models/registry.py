from timm.models import create_model, register_model
