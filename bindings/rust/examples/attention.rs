//! attention.rs -- causal attention on a GPU through libfatune, compared with a loop on the CPU.
//!
//!     FATUNE_LIB_DIR=PREFIX/lib cargo run --example attention
use std::ffi::{c_int, c_void};
use std::ptr;

#[link(name = "cuda")]
extern "C" {
    fn cuInit(flags: u32) -> c_int;
    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> c_int;
    fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, device: c_int) -> c_int;
    fn cuCtxSetCurrent(context: *mut c_void) -> c_int;
    fn cuMemAlloc_v2(at: *mut u64, bytes: usize) -> c_int;
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> c_int;
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> c_int;
}

const B: usize = 1;
const H: usize = 2;
const N: usize = 40;
const D: usize = 64;

fn must(result: c_int) {
    assert_eq!(result, 0, "a call of the driver failed");
}

fn room(bytes: usize) -> u64 {
    let mut at = 0;
    must(unsafe { cuMemAlloc_v2(&mut at, bytes) });
    at
}

/// Numbers that look random, and their place on the GPU.
fn numbers(seed: u32) -> (Vec<f32>, u64) {
    let mut state = seed;
    let values: Vec<f32> = (0..B * H * N * D)
        .map(|_| {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect();
    let at = room(values.len() * 4);
    must(unsafe { cuMemcpyHtoD_v2(at, values.as_ptr().cast(), values.len() * 4) });
    (values, at)
}

/// One row of the output, by the definition.
fn expect(q: &[f32], k: &[f32], v: &[f32], head: usize, i: usize, scale: f32) -> Vec<f32> {
    let row = |x: &[f32], n: usize| x[(head * N + n) * D..(head * N + n + 1) * D].to_vec();
    let weights: Vec<f32> =
        (0..=i).map(|j| (scale * row(q, i).iter().zip(row(k, j)).map(|(a, b)| a * b).sum::<f32>()).exp()).collect();
    let total: f32 = weights.iter().sum();
    (0..D).map(|x| weights.iter().enumerate().map(|(j, w)| w * row(v, j)[x]).sum::<f32>() / total).collect()
}

fn main() -> Result<(), fatune::Error> {
    let (mut device, mut context) = (0, ptr::null_mut());
    unsafe {
        must(cuInit(0));
        must(cuDeviceGet(&mut device, 0));
        must(cuDevicePrimaryCtxRetain(&mut context, device));
        must(cuCtxSetCurrent(context));
    }
    let library = fatune::Library::open()?;
    let sizes = fatune::Sizes::new(B as i64, H as i64, H as i64, N as i64, N as i64);
    let plan = library.plan_for("fwd-f32-d64-causal", &sizes, fatune::Policy::Compile)?; // compiles no more than this call needs
    print!("libfatune {}\n{}", fatune::version(), plan.describe());

    let ((q, at_q), (k, at_k), (v, at_v)) = (numbers(1), numbers(2), numbers(3));
    let at_o = room(q.len() * 4);
    let place = |at: u64| fatune::packed(at as *mut c_void, H as i64, N as i64, D as i64);
    let (tq, tk, tv, to) = (place(at_q), place(at_k), place(at_v), place(at_o));
    let workspace = match plan.workspace(&sizes)? {
        0 => 0,
        bytes => room(bytes),
    };
    let scale = 1.0 / (D as f32).sqrt();
    let call = fatune::Call::forward(&tq, &tk, &tv, &to, scale);
    unsafe { plan.run(&call, &sizes, workspace as *mut c_void, ptr::null_mut())? };

    let mut o = vec![0f32; q.len()];
    must(unsafe { cuMemcpyDtoH_v2(o.as_mut_ptr().cast(), at_o, o.len() * 4) });
    let mut error = 0f32;
    for head in 0..H {
        for i in 0..N {
            for (x, right) in expect(&q, &k, &v, head, i, scale).iter().enumerate() {
                error = error.max((o[(head * N + i) * D + x] - right).abs());
            }
        }
    }
    println!("largest error {error:.2e}: {}", if error < 1e-5 { "right" } else { "WRONG" });
    let wrong = library.plan("fwd-f9-d64", fatune::Policy::Fail).err().expect("fwd-f9-d64 is no family");
    println!("an error reads: {wrong}");
    std::process::exit(if error < 1e-5 { 0 } else { 1 });
}
