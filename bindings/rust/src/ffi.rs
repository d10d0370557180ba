//! fatune.h, as far as this crate uses it. Structs begin with their size, so a library that knows more members takes these.
use std::ffi::{c_char, c_int, c_void};

#[repr(C)]
pub struct Handle {
    _private: [u8; 0],
}

#[repr(C)]
pub struct PlanHandle {
    _private: [u8; 0],
}

#[repr(C)]
pub struct Options {
    pub size: usize,
    pub database: *const c_char,
    pub system_database: *const c_char,
}

#[repr(C)]
pub struct Request {
    pub size: usize,
    pub problem: *const c_char,
    pub kernel: *const c_char,
    pub policy: u32,
    pub flags: u32,
    pub r#mod: *const c_char,
    pub mask_mod: *const c_char,
    pub sizes: *const Sizes,
}

#[repr(C)]
pub struct Sizes {
    pub size: usize,
    pub b: i64,
    pub h: i64,
    pub hk: i64,
    pub q: i64,
    pub k: i64,
    pub total_q: i64,
    pub total_k: i64,
    pub window_left: i64,
    pub window_right: i64,
    pub chunk: i64,
    pub split: i64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Tensor {
    pub data: *mut c_void,
    pub stride: [i64; 3],
}

#[repr(C)]
#[allow(non_snake_case)]
pub struct Tensors {
    pub size: usize,
    pub Q: *const Tensor,
    pub K: *const Tensor,
    pub V: *const Tensor,
    pub O: *const Tensor,
    pub LSE: *const Tensor,
    pub scale: f32,
    pub reserved: u32,
    pub dO: *const Tensor,
    pub dQ: *const Tensor,
    pub dK: *const Tensor,
    pub dV: *const Tensor,
    pub sink: *const Tensor,
}

extern "C" {
    pub fn fatune_status_text(status: c_int) -> *const c_char;
    pub fn fatune_detail() -> *const c_char;
    pub fn fatune_version() -> *const c_char;
    pub fn fatune_open(options: *const Options, handle: *mut *mut Handle) -> c_int;
    pub fn fatune_close(handle: *mut Handle);
    pub fn fatune_plan_make(handle: *mut Handle, request: *const Request, plan: *mut *mut PlanHandle) -> c_int;
    pub fn fatune_plan_free(plan: *mut PlanHandle);
    pub fn fatune_workspace(plan: *const PlanHandle, sizes: *const Sizes, bytes: *mut usize) -> c_int;
    pub fn fatune_describe(plan: *const PlanHandle) -> *const c_char;
    pub fn fatune_run(plan: *const PlanHandle, tensors: *const Tensors, sizes: *const Sizes, workspace: *mut c_void, stream: *mut c_void)
        -> c_int;
}
