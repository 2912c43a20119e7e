"""Many runs of one study: where they lie, what they need, what they measured."""
