//! Mnemonic phrases (BIP-39) and the keys derived from them (BIP-32).
//!
//! Phrases may be in any of the ten languages of BIP-39, which is detected by their words. Words and passphrase
//! are normalised (NFKD) first, so different encodings of the same text result in the same key.

use super::{HdPath, PrivateKey};
use bip39::{Error as Bip39Error, Language, Mnemonic};
use std::borrow::Cow;
use zeroize::Zeroizing;

/// Number of words of a new phrase, which has 256 bits of entropy.
pub const DEFAULT_WORDS: usize = 24;
/// Valid numbers of words.
pub const WORD_COUNTS: [usize; 5] = [12, 15, 18, 21, 24];
/// Bytes of entropy in three words, which encode 33 bits: 32 of entropy and one of checksum.
const ENTROPY_BYTES_PER_THREE_WORDS: usize = 4;
/// Maximum size of a phrase in bytes. It is sufficient for 24 words of 8 letters in decomposed UTF-8.
pub const MAX_PHRASE_BYTES: usize = 2048;

/// Why a text is not a phrase.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MnemonicError {
    /// The number of words is wrong.
    #[error("invalid mnemonic: {0} words, want 12, 15, 18, 21 or 24")]
    WordCount(usize),
    /// A word is not in a word list, or is in that of another language than the previous words.
    #[error("invalid mnemonic: word {place}, {word:?}, is not in the word list")]
    UnknownWord {
        /// Its position, starting at 1.
        place: usize,
        /// The word.
        word: String,
    },
    /// All words are known, but the checksum is wrong: a word or the order of the words is wrong.
    #[error("invalid mnemonic: wrong checksum")]
    Checksum,
    /// The text is too long for a phrase.
    #[error("invalid mnemonic: longer than {MAX_PHRASE_BYTES} bytes")]
    TooLong,
    /// The length of the entropy is wrong.
    #[error("entropy of {0} bytes gives no mnemonic: want 16, 20, 24, 28 or 32")]
    Entropy(usize),
    /// The name of the language is unknown.
    #[error("unknown language {_0:?}: want one of {}", language_names().join(", "))]
    Language(String),
    /// The operating system cannot provide random bytes.
    #[error("no randomness from the operating system: {0}")]
    Random(getrandom::Error),
    /// The derived number is not a key, which has a probability below 2^-127.
    #[error("the path {0} gives no key: use another index")]
    Derivation(HdPath),
}

/// A phrase with a valid checksum. It is zeroed when dropped.
#[derive(Clone)]
pub struct Phrase(Mnemonic);

impl Phrase {
    /// Creates a phrase from random bytes of the operating system.
    ///
    /// # Errors
    /// If the number of words or the language is invalid, or if there are no random bytes.
    pub fn random(words: usize, language: &str) -> Result<Self, MnemonicError> {
        if !WORD_COUNTS.contains(&words) {
            return Err(MnemonicError::WordCount(words));
        }
        let bytes = words / 3 * ENTROPY_BYTES_PER_THREE_WORDS;
        let mut entropy = Zeroizing::new(vec![0; bytes]);
        getrandom::fill(&mut entropy).map_err(MnemonicError::Random)?;
        Self::from_entropy(&entropy, language)
    }

    /// Encodes 16 to 32 bytes of entropy as a phrase.
    ///
    /// # Errors
    /// If the length or the language is invalid.
    pub fn from_entropy(entropy: &[u8], language: &str) -> Result<Self, MnemonicError> {
        let language = language_by_name(language)?;
        let phrase = Mnemonic::from_entropy_in(language, entropy);
        phrase.map(Self).map_err(|_| MnemonicError::Entropy(entropy.len()))
    }

    /// Parses a phrase and detects its language.
    ///
    /// # Errors
    /// States the fault, with the position and the text of an unknown word.
    pub fn parse(text: &str) -> Result<Self, MnemonicError> {
        if text.len() > MAX_PHRASE_BYTES {
            return Err(MnemonicError::TooLong);
        }
        let mut normal = Cow::Borrowed(text);
        Mnemonic::normalize_utf8_cow(&mut normal);
        let normal = Zeroizing::new(normal.into_owned());
        let mut checksum_failed = false;
        let mut furthest = 0;
        for (_, language) in LANGUAGES {
            // If all words are in two lists, both languages have the same text and therefore the same seed.
            match Mnemonic::parse_in_normalized(language, &normal) {
                Ok(phrase) => return Ok(Self(phrase)),
                Err(Bip39Error::BadWordCount(count)) => {
                    return Err(MnemonicError::WordCount(count));
                }
                Err(Bip39Error::UnknownWord(position)) => furthest = furthest.max(position),
                Err(_) => checksum_failed = true,
            }
        }
        if checksum_failed {
            return Err(MnemonicError::Checksum);
        }
        let word = text.split_whitespace().nth(furthest).unwrap_or_default().to_owned();
        Err(MnemonicError::UnknownWord { place: furthest + 1, word })
    }

    /// Returns the words, separated by spaces.
    pub fn words(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(MAX_PHRASE_BYTES));
        for word in self.0.words() {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(word);
        }
        text
    }

    /// Returns the seed of 64 bytes from which keys are derived. `passphrase` is that of BIP-39, which is often empty.
    pub fn seed(&self, passphrase: &str) -> Zeroizing<[u8; 64]> {
        Zeroizing::new(self.0.to_seed(passphrase))
    }

    /// Returns the key at `path`.
    ///
    /// # Errors
    /// If there is no key at this path, which has a probability below 2^-127.
    pub fn derive(&self, passphrase: &str, path: &HdPath) -> Result<PrivateKey, MnemonicError> {
        let seed = self.seed(passphrase);
        let derived = bip32::ExtendedPrivateKey::<k256::SecretKey>::derive_from_path(
            seed.as_slice(),
            &path.derivation(),
        );
        let derived = derived.map_err(|_| MnemonicError::Derivation(*path))?;
        Ok(PrivateKey::from_secret(derived.private_key().clone()))
    }
}

impl std::fmt::Debug for Phrase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Phrase(..)")
    }
}

/// The languages of BIP-39 and their names.
const LANGUAGES: [(&str, Language); 10] = [
    ("english", Language::English),
    ("chinese-simplified", Language::SimplifiedChinese),
    ("chinese-traditional", Language::TraditionalChinese),
    ("czech", Language::Czech),
    ("french", Language::French),
    ("italian", Language::Italian),
    ("japanese", Language::Japanese),
    ("korean", Language::Korean),
    ("portuguese", Language::Portuguese),
    ("spanish", Language::Spanish),
];

/// Returns the names of the languages, `english` first.
pub fn language_names() -> [&'static str; LANGUAGES.len()] {
    LANGUAGES.map(|(name, _)| name)
}

fn language_by_name(name: &str) -> Result<Language, MnemonicError> {
    let found = LANGUAGES.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, language)| language).ok_or_else(|| MnemonicError::Language(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: &str = "test test test test test test test test test test test junk";

    #[test]
    fn keys_of_a_known_phrase_are_correct() {
        let phrase = Phrase::parse(TEST).unwrap();
        let address = |coin, index| {
            let path = HdPath::new(coin, 0, index).unwrap();
            phrase.derive("", &path).unwrap().address().to_string()
        };
        assert_eq!(address(60, 0), "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
        assert_eq!(address(60, 1), "0x70997970C51812dc3A010C7d01b50e0d17dc79C8");
        assert_eq!(address(60, 2), "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC");
        assert_eq!(address(118, 0), "0x80C096928977159B2A96839CC0cb55f37f17CDc9");
        assert_eq!(*phrase.words(), TEST);
    }

    #[test]
    fn errors_name_the_cause() {
        let fault = |text: &str| Phrase::parse(text).unwrap_err();
        assert_eq!(fault(""), MnemonicError::WordCount(0));
        assert_eq!(fault("test test"), MnemonicError::WordCount(2));
        assert_eq!(fault(&TEST.replace("junk", "test")), MnemonicError::Checksum);
        let unknown = MnemonicError::UnknownWord { place: 12, word: "junc".to_owned() };
        assert_eq!(fault(&TEST.replace("junk", "junc")), unknown);
        assert_eq!(fault(&"word ".repeat(1000)), MnemonicError::TooLong);
    }

    #[test]
    fn phrases_of_every_language_and_length_are_parsed() {
        for language in language_names() {
            for words in WORD_COUNTS {
                let phrase = Phrase::random(words, language).unwrap();
                let text = phrase.words();
                assert_eq!(text.split(' ').count(), words);
                assert_eq!(Phrase::parse(&text).unwrap().seed("x"), phrase.seed("x"));
            }
        }
        assert!(matches!(Phrase::random(24, "latin"), Err(MnemonicError::Language(_))));
        assert!(matches!(Phrase::random(13, "english"), Err(MnemonicError::WordCount(13))));
    }
}
