//! Where libfatune lies: FATUNE_LIB_DIR, else what pkg-config says, else where the linker looks.
use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=FATUNE_LIB_DIR");
    let folder = env::var("FATUNE_LIB_DIR").ok().or_else(|| {
        let said = Command::new("pkg-config").args(["--variable=libdir", "fatune"]).output().ok()?;
        String::from_utf8(said.stdout).ok().map(|text| text.trim().to_owned()).filter(|text| said.status.success() && !text.is_empty())
    });
    if let Some(folder) = folder {
        println!("cargo:rustc-link-search=native={folder}");
    }
    println!("cargo:rustc-link-lib=dylib=fatune");
}
