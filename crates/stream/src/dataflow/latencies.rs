/// Longest latency that is told apart, in milliseconds: longer ones count as this.
const LATENCY_MAX_MS: usize = 60_000;

/// Latencies of an epoch's records, exact to the millisecond: a count for each.
#[derive(Debug)]
pub(super) struct Latencies {
    counts: Vec<u64>,
    total: u64,
}

impl Latencies {
    pub fn new() -> Self {
        Self { counts: vec![0; LATENCY_MAX_MS + 1], total: 0 }
    }

    /// Counts one. A record from the future has waited for nothing.
    pub fn record(&mut self, latency_ms: i64) {
        let at = usize::try_from(latency_ms.max(0)).unwrap_or(LATENCY_MAX_MS).min(LATENCY_MAX_MS);
        self.counts[at] += 1;
        self.total += 1;
    }

    /// The least latency that at least this part of them does not exceed; nothing if there are none.
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let wanted = ((self.total as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        for (ms, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Some(ms as u64);
            }
        }
        None
    }

    pub fn clear(&mut self) {
        if self.total > 0 {
            self.counts.fill(0);
            self.total = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_latencies_that_were_counted() {
        let mut latencies = Latencies::new();
        assert_eq!(latencies.quantile(0.5), None);
        for ms in 1..=100 {
            latencies.record(ms);
        }
        latencies.record(-5);
        assert_eq!((latencies.quantile(0.5), latencies.quantile(0.99)), (Some(50), Some(99)));
        latencies.record(i64::MAX);
        assert_eq!(latencies.quantile(1.0), Some(60_000));
        latencies.clear();
        assert_eq!(latencies.quantile(0.5), None);
    }
}
