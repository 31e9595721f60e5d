/// The quantile `part` (0 to 1; 0.5 is the median) of measurements: the least of them that at least this part of the others
/// does not exceed, so always one that was measured. 0 if there are none.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len().saturating_sub(1) as f64 * part).ceil() as usize;
    sorted.get(at).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let values = [5.0, 1.0, 4.0, 2.0, 3.0];
        for (part, expected) in [(0.0, 1.0), (0.25, 2.0), (0.5, 3.0), (0.51, 4.0), (0.99, 5.0), (1.0, 5.0)] {
            assert_eq!(quantile(&values, part), expected, "{part}");
        }
        assert_eq!(quantile(&[2.0, 1.0], 0.5), 2.0, "the upper of two");
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
