//! Ciphers and versions by the names that OpenSSL and Redis give them.
use rustls::crypto::ring::cipher_suite::*;
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

/// Those of TLS 1.2, in rustls's order of preference.
const TLS12_NAMES: [(&str, SupportedCipherSuite); 6] = [
    ("ECDHE-ECDSA-AES256-GCM-SHA384", TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-AES256-GCM-SHA384", TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES128-GCM-SHA256", TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-CHACHA20-POLY1305", TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// Those of TLS 1.3.
const TLS13_NAMES: [(&str, SupportedCipherSuite); 3] = [
    ("TLS_AES_256_GCM_SHA384", TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", TLS13_AES_128_GCM_SHA256),
    ("TLS_CHACHA20_POLY1305_SHA256", TLS13_CHACHA20_POLY1305_SHA256),
];

/// OpenSSL's classes of ciphers of which rustls has none, so that leaving them out changes nothing.
const ABSENT: [&str; 18] = [
    "LOW", "MEDIUM", "EXPORT", "aNULL", "eNULL", "NULL", "ADH", "MD5", "RC4", "DES", "3DES", "IDEA", "SEED",
    "CAMELLIA", "PSK", "SRP", "DSS", "SHA1",
];

/// The ciphers that `tls-ciphersuites` and `tls-ciphers` name, those of TLS 1.3 first.
///
/// # Errors
/// A name that is unknown, with the known ones.
pub fn suites(tls13: &str, tls12: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    let mut suites = chosen("tls-ciphersuites", tls13, &TLS13_NAMES)?;
    suites.extend(chosen("tls-ciphers", tls12, &TLS12_NAMES)?);
    Ok(suites)
}

fn chosen(
    setting: &str,
    text: &str,
    known: &[(&str, SupportedCipherSuite)],
) -> Result<Vec<SupportedCipherSuite>, String> {
    let words = || text.split([':', ',', ' ']).filter(|word| !word.is_empty());
    let mut suites: Vec<SupportedCipherSuite> = Vec::new();
    for word in words() {
        let named = known.iter().find(|(name, _)| *name == word);
        match (named, word.strip_prefix('!')) {
            (Some((_, suite)), _) => suites.push(*suite),
            (None, Some(absent)) if ABSENT.contains(&absent) => {}
            (None, _) if ["DEFAULT", "HIGH", "ALL"].contains(&word) => {
                suites.extend(known.iter().map(|(_, suite)| *suite))
            }
            _ => {
                let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                return Err(format!(
                    "{setting}: '{word}' is not known here; choose from DEFAULT, {}",
                    names.join(", ")
                ));
            }
        }
    }
    if suites.is_empty() {
        suites.extend(known.iter().map(|(_, suite)| *suite));
    }
    Ok(suites)
}

/// The versions that `tls-protocols` names.
///
/// # Errors
/// A version that is not spoken.
pub fn versions(text: &str) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let version = |word: &str| match word.to_ascii_lowercase().as_str() {
        "tlsv1.2" => Ok(&TLS12),
        "tlsv1.3" => Ok(&TLS13),
        _ => Err(format!("tls-protocols: '{word}' is not spoken here; choose from TLSv1.2 and TLSv1.3")),
    };
    let versions = text.split_whitespace().map(version).collect::<Result<Vec<_>, _>>()?;
    Ok(if versions.is_empty() { vec![&TLS13, &TLS12] } else { versions })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_chosen_in_their_order_or_refused() {
        let names = |tls13, tls12| suites(tls13, tls12).map(|suites| suites.len());
        assert_eq!(names("", ""), Ok(9));
        assert_eq!(names("TLS_AES_128_GCM_SHA256", "DEFAULT:!MEDIUM"), Ok(7));
        let two =
            suites("TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256")
                .unwrap();
        assert_eq!(
            two,
            [TLS13_CHACHA20_POLY1305_SHA256, TLS13_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]
        );
        assert!(names("", "RC4-SHA").unwrap_err().starts_with("tls-ciphers: 'RC4-SHA' is not known here"));
        assert!(names("", "DEFAULT:!ECDHE").is_err());
        assert_eq!(versions("TLSv1.3").unwrap(), [&TLS13]);
        assert_eq!(versions("").unwrap().len(), 2);
        assert!(versions("TLSv1.1").unwrap_err().contains("TLSv1.1"));
    }
}
