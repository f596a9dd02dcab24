"""What dpcheck listens to inside a process of a verified run, and what it gives to a reference for its data."""

from __future__ import annotations

from dpcheck.verify.session import Session


def install(session: Session) -> None:
    """Put all hooks in place. torch is imported and the shim installed; nothing of the script has run."""
    from dpcheck.verify.feed.reference import ReferenceFeed
    from dpcheck.verify.hooks import (
        averaging,
        collectives,
        data,
        draws,
        effects,
        forwards,
        gradients,
        handwritten,
        inputs,
        losses,
        mends,
        modules,
        norms,
        seeds,
        steps,
        wraps,
    )

    feed = ReferenceFeed(session, session.job.feed) if session.job.feed is not None else None
    forward_feed = feed if feed is not None and feed.replaces_inputs else None
    effects.install(session)
    session.models = models = modules.install(session)
    local_gradients = gradients.install(session)
    seeds.install(session, models)
    collectives.install(session)
    wraps.install(session)
    averaging.install(session)
    losses.install(session)
    mends.install(session, models, feed)
    norms.install(session, feed.rows_of_ranks if feed is not None else None)
    loaders = data.install(session, feed)
    drawn = draws.install(session, feed)
    entering = inputs.install(session, forward_feed.target if forward_feed is not None else None)
    forwards.install(
        session,
        models,
        loaders,
        entering,
        (lambda window: feed.restore(models, window)) if feed is not None else None,
        forward_feed.inputs if forward_feed is not None else None,
    )
    closing = steps.install(session, models, local_gradients, loaders.passes)
    handwritten.install(session, models, local_gradients, closing)
    session.before_window_ends += [drawn.save, entering.save]
    session.before_finish += [loaders.look_ahead]
