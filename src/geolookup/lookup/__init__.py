"""Looking addresses up in what is published: the engine, its snapshots, and how a state is opened."""
