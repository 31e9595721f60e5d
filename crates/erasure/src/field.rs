//! GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d) and the generator 2, as Hadoop and ISA-L have it.
//!
//! Addition is exclusive or. The tables are computed when this is compiled.

/// The polynomial without its leading term.
const POLYNOMIAL: u8 = 0x1d;

/// Powers of the generator, twice in a row, so that a sum of two logarithms needs no reduction.
const POWERS: [u8; 510] = {
    let (mut powers, mut value, mut exponent) = ([0; 510], 1u8, 0);
    while exponent < 255 {
        powers[exponent] = value;
        powers[exponent + 255] = value;
        value = double(value);
        exponent += 1;
    }
    powers
};

/// Logarithms to the base of the generator; that of 0 is never used.
const LOGARITHMS: [u8; 256] = {
    let (mut logarithms, mut exponent) = ([0; 256], 0);
    while exponent < 255 {
        logarithms[POWERS[exponent] as usize] = exponent as u8;
        exponent += 1;
    }
    logarithms
};

/// `2 * value`.
const fn double(value: u8) -> u8 {
    (value << 1) ^ (if value & 0x80 != 0 { POLYNOMIAL } else { 0 })
}

/// `a * b`.
pub(crate) const fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    POWERS[LOGARITHMS[a as usize] as usize + LOGARITHMS[b as usize] as usize]
}

/// `1 / value`.
///
/// # Panics
/// `value` is 0, which has no inverse.
pub(crate) const fn invert(value: u8) -> u8 {
    assert!(value != 0, "zero has no inverse");
    POWERS[255 - LOGARITHMS[value as usize] as usize]
}

/// `2 ^ exponent`.
pub(crate) const fn power_of_generator(exponent: usize) -> u8 {
    POWERS[exponent % 255]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplication bit by bit, as on paper.
    fn product(mut a: u8, mut b: u8) -> u8 {
        let mut sum = 0;
        while b != 0 {
            if b & 1 != 0 {
                sum ^= a;
            }
            a = double(a);
            b >>= 1;
        }
        sum
    }

    #[test]
    fn products_are_those_of_polynomials() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(multiply(a, b), product(a, b), "{a} * {b}");
            }
        }
    }

    #[test]
    fn every_element_but_zero_has_an_inverse() {
        for value in 1..=255 {
            assert_eq!(multiply(value, invert(value)), 1, "{value}");
        }
    }

    #[test]
    fn powers_of_the_generator_are_all_elements_but_zero() {
        let mut seen: Vec<u8> = (0..255).map(power_of_generator).collect();
        seen.sort_unstable();
        assert_eq!(seen, (1..=255).collect::<Vec<u8>>());
        assert_eq!(power_of_generator(255), 1);
    }
}
