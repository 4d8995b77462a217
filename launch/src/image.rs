//! The agent's image, built into this program by `build.rs`.

include!(concat!(env!("OUT_DIR"), "/agent.rs"));

static BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agent.image"));

/// The image as it must lie at `base`.
pub fn at_base(base: u64) -> Vec<u8> {
    let mut image = BYTES.to_vec();
    for &offset in RELOCATIONS {
        let at = offset as usize;
        if let Some(word) = image.get_mut(at..at + 8) {
            let value = u64::from_le_bytes(word.try_into().unwrap_or_default());
            word.copy_from_slice(&value.wrapping_add(base).to_le_bytes());
        }
    }
    image
}
