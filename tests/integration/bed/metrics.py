"""The Prometheus text format, strictly."""
import re

SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(?:,|$)')


class Metrics:
    def __init__(self, text):
        self.types, self.samples = {}, []
        seen = set()
        for line in text.split("\n"):
            if not line:
                continue
            if line.startswith("#"):
                words = line.split(" ", 3)
                if words[1] == "TYPE":
                    assert words[2] not in self.types, f"two TYPE lines for {words[2]}"
                    self.types[words[2]] = words[3]
                continue
            match = SAMPLE.match(line)
            assert match, f"not a sample: {line!r}"
            labels = dict(LABEL.findall(match.group(2) or ""))
            key = (match.group(1), tuple(sorted(labels.items())))
            assert key not in seen, f"the same series twice: {line!r}"
            seen.add(key)
            self.samples.append((match.group(1), labels, float(match.group(3))))
        assert text.endswith("\n"), "the last line has no newline"

    def series(self, name, **labels):
        return [(have, value) for n, have, value in self.samples
                if n == name and all(have.get(k) == v for k, v in labels.items())]

    def sum(self, name, **labels):
        """Sum over the series that match; 0 when there is none."""
        return sum(value for _, value in self.series(name, **labels))

    def names(self):
        return {n for n, _, _ in self.samples}

    def label_values(self, label):
        return {have[label] for _, have, _ in self.samples if label in have}
