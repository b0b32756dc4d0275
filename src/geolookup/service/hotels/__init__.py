"""Operations 8 to 10 of the interface: hotel content and rate plans."""
