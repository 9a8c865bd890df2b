//! What a client counts, and the same as Prometheus reads it.

use std::fmt::Write;
use std::time::Duration;

/// The first bucket of round-trip times reaches to 2^4 us = 16 us, each next one twice as far; the last has no end.
const BUCKETS: usize = 20;
const FIRST_EXPONENT: u32 = 4;

/// Bytes and round-trip times of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// Round-trip times, from the writing of a call's last byte to its reply: how many were at most as long as
    /// [`Traffic::bucket_end`] says, and longer than the bucket before.
    pub round_trips: [u64; BUCKETS],
    /// The sum of all round-trip times, in microseconds.
    pub round_trips_us: u64,
}

impl Traffic {
    pub(crate) fn note(&mut self, trip: Duration) {
        let us = u64::try_from(trip.as_micros()).unwrap_or(u64::MAX);
        let exponent = u64::BITS - us.saturating_sub(1).leading_zeros();
        let bucket = exponent.saturating_sub(FIRST_EXPONENT) as usize;
        self.round_trips[bucket.min(BUCKETS - 1)] += 1;
        self.round_trips_us = self.round_trips_us.saturating_add(us);
    }

    /// The longest time of a bucket; `None` for the last one, which has no end.
    pub fn bucket_end(bucket: usize) -> Option<Duration> {
        (bucket + 1 < BUCKETS).then(|| Duration::from_micros(1 << (FIRST_EXPONENT as usize + bucket)))
    }

    /// A time that this share of the round trips did not exceed, to the end of its bucket: 0.5 for the median. `None` without any, or
    /// if it lies in the last bucket.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let total: u64 = self.round_trips.iter().sum();
        let wanted = (total as f64 * share).ceil() as u64;
        let mut sum = 0;
        let bucket = self.round_trips.iter().position(|count| {
            sum += count;
            total > 0 && sum >= wanted
        })?;
        Traffic::bucket_end(bucket)
    }

    fn and(mut self, other: Traffic) -> Traffic {
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.round_trips_us += other.round_trips_us;
        self.round_trips.iter_mut().zip(other.round_trips).for_each(|(sum, count)| *sum += count);
        self
    }
}

/// Figures of a client's main connection, since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClientStats {
    /// Whether the connection is up and takes calls.
    pub is_up: bool,
    /// Calls that were accepted; a pipeline or transaction is one.
    pub calls: u64,
    /// Calls that were refused because the queue was full or the connection down. A call that was fired says so nowhere else.
    pub calls_refused: u64,
    /// Calls whose deadline passed.
    pub calls_timed_out: u64,
    /// Calls that wait to be written at present, and their bytes.
    pub queued_calls: usize,
    pub queued_bytes: usize,
    /// How often a connection was made and logged in: all but the first are reconnects.
    pub connects: u64,
    /// What the connection has carried.
    pub traffic: Traffic,
}

impl ClientStats {
    /// The sums of two connections' figures.
    pub(crate) fn and(self, other: ClientStats) -> ClientStats {
        ClientStats {
            is_up: self.is_up && other.is_up,
            calls: self.calls + other.calls,
            calls_refused: self.calls_refused + other.calls_refused,
            calls_timed_out: self.calls_timed_out + other.calls_timed_out,
            queued_calls: self.queued_calls + other.queued_calls,
            queued_bytes: self.queued_bytes + other.queued_bytes,
            connects: self.connects + other.connects,
            traffic: self.traffic.and(other.traffic),
        }
    }

    /// The figures in Prometheus's text format. `labels` stands in the braces of each line: `client="web"`, or nothing.
    pub fn prometheus(&self, labels: &str) -> String {
        let mut text = String::new();
        let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let comma = if labels.is_empty() { "" } else { "," };
        let mut line = |name: &str, kind: &str, value: u64| {
            let _infallible =
                write!(text, "# TYPE polder_client_{name} {kind}\npolder_client_{name}{braced} {value}\n");
        };
        line("up", "gauge", self.is_up.into());
        line("calls_total", "counter", self.calls);
        line("calls_refused_total", "counter", self.calls_refused);
        line("calls_timed_out_total", "counter", self.calls_timed_out);
        line("queued_calls", "gauge", self.queued_calls as u64);
        line("queued_bytes", "gauge", self.queued_bytes as u64);
        line("connects_total", "counter", self.connects);
        line("sent_bytes_total", "counter", self.traffic.bytes_sent);
        line("received_bytes_total", "counter", self.traffic.bytes_received);
        let name = "polder_client_round_trip_seconds";
        let _infallible = writeln!(text, "# TYPE {name} histogram");
        let mut sum = 0;
        for (bucket, count) in self.traffic.round_trips.iter().enumerate() {
            sum += count;
            let end =
                Traffic::bucket_end(bucket).map_or("+Inf".to_owned(), |end| end.as_secs_f64().to_string());
            let _infallible = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"{end}\"}} {sum}");
        }
        let seconds = Duration::from_micros(self.traffic.round_trips_us).as_secs_f64();
        let _infallible = write!(text, "{name}_sum{braced} {seconds}\n{name}_count{braced} {sum}\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_fall_into_the_bucket_that_reaches_as_far() {
        for (us, bucket) in
            [(0, 0), (16, 0), (17, 1), (32, 1), (33, 2), (1 << 22, 18), (u64::MAX, BUCKETS - 1)]
        {
            let mut traffic = Traffic::default();
            traffic.note(Duration::from_micros(us));
            assert_eq!(traffic.round_trips.iter().position(|count| *count == 1), Some(bucket), "{us} us");
            assert!(
                Traffic::bucket_end(bucket).is_none_or(|end| end >= Duration::from_micros(us)),
                "{us} us"
            );
        }
        let mut traffic = Traffic::default();
        (0..99).for_each(|_| traffic.note(Duration::from_micros(20)));
        traffic.note(Duration::from_millis(1));
        assert_eq!(
            (traffic.quantile(0.5), traffic.quantile(1.0)),
            (Some(Duration::from_micros(32)), Some(Duration::from_micros(1024)))
        );
        assert_eq!(Traffic::default().quantile(0.5), None);
    }

    #[test]
    fn prometheus_reads_cumulative_buckets_and_the_labels_that_are_given() {
        let mut stats = ClientStats { is_up: true, calls: 7, ..ClientStats::default() };
        stats.traffic.note(Duration::from_micros(20));
        let text = stats.prometheus("client=\"web\"");
        for line in [
            "polder_client_up{client=\"web\"} 1",
            "polder_client_calls_total{client=\"web\"} 7",
            "polder_client_round_trip_seconds_bucket{client=\"web\",le=\"0.000016\"} 0",
            "polder_client_round_trip_seconds_bucket{client=\"web\",le=\"+Inf\"} 1",
            "polder_client_round_trip_seconds_count{client=\"web\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in:\n{text}");
        }
        assert!(stats.prometheus("").contains("polder_client_up 1\n"));
    }
}
