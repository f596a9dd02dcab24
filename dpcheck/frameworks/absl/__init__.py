"""abseil: flags are the user's options; `app.run` calls the program's `main`."""

from absl import app, flags, logging
