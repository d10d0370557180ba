//! Attention on NVIDIA GPUs by kernels that fatune tuned or compiles for the GPU at hand: a thin crate over libfatune.
//!
//! ```no_run
//! # fn main() -> Result<(), fatune::Error> {
//! # let (q, k, v, o) = unsafe { std::mem::zeroed() };
//! # let (workspace, stream) = (std::ptr::null_mut(), std::ptr::null_mut());
//! let library = fatune::Library::open()?;
//! let plan = library.plan("fwd-bf16-d128-causal", fatune::Policy::Compile)?; // a family: any sizes
//! let sizes = fatune::Sizes::new(2, 16, 16, 4096, 4096);
//! let bytes = plan.workspace(&sizes)?; // of device memory
//! let call = fatune::Call::forward(&q, &k, &v, &o, 1.0 / 128f32.sqrt());
//! unsafe { plan.run(&call, &sizes, workspace, stream)? }; // queued, not awaited
//! # assert!(bytes < usize::MAX);
//! # Ok(())
//! # }
//! ```
//!
//! Only making a plan may compile, load or allocate; `run` queues launches and nothing else. The CUDA context is that which
//! is current in the thread, and memory is the caller's: what points to it is why `run` is unsafe.

pub mod ffi;

use std::ffi::{c_int, c_void, CStr, CString};
use std::fmt;
use std::marker::PhantomData;
use std::ptr;

pub use ffi::Tensor;

/// What a call of libfatune answered: its status and its sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub status: i32,
    pub text: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

fn text_of(at: *const std::ffi::c_char) -> String {
    // libfatune's texts are never NULL and live at least until this thread's next call.
    unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
}

fn check(status: c_int) -> Result<(), Error> {
    if status == 0 {
        return Ok(());
    }
    let text = unsafe { format!("{}: {}", text_of(ffi::fatune_status_text(status)), text_of(ffi::fatune_detail())) };
    Err(Error { status, text })
}

fn c_text(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error { status: 1, text: format!("{text:?} has a zero byte") })
}

/// The version of the library that is loaded.
pub fn version() -> String {
    text_of(unsafe { ffi::fatune_version() })
}

/// What to do where nothing stored is of this very problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Policy {
    /// Take what is stored for something near.
    Fallback = 0,
    /// An error.
    Fail = 1,
    /// As Fallback; compile the default where nothing is stored, which takes seconds, once.
    Compile = 2,
}

/// An open library: the driver, and the databases' places. Plans stay good when it is closed.
pub struct Library(*mut ffi::Handle);

// fatune.h: any thread may use a handle; plans are immutable.
unsafe impl Send for Library {}
unsafe impl Sync for Library {}

impl Library {
    pub fn open() -> Result<Library, Error> {
        let mut handle = ptr::null_mut();
        check(unsafe { ffi::fatune_open(ptr::null(), &mut handle) })?;
        Ok(Library(handle))
    }

    /// The plan of a problem (`fwd-f16-b2-h16-q512-k512-d64`) or a family (`fwd-f16-d64`) in the context that is current.
    pub fn plan(&self, problem: &str, policy: Policy) -> Result<Plan, Error> {
        self.make(problem, None, policy, None)
    }

    /// The same of one kernel: "fa1", "standard", ...
    pub fn plan_of(&self, problem: &str, kernel: Option<&str>, policy: Policy) -> Result<Plan, Error> {
        self.make(problem, kernel, policy, None)
    }

    /// The plan of a family, for a call of these sizes: of kernels that are stored without a binary it compiles only the one that the
    /// call needs. Calls that need another are an error until a plan is asked for with their sizes.
    pub fn plan_for(&self, family: &str, sizes: &Sizes, policy: Policy) -> Result<Plan, Error> {
        self.make(family, None, policy, Some(sizes))
    }

    fn make(&self, problem: &str, kernel: Option<&str>, policy: Policy, sizes: Option<&Sizes>) -> Result<Plan, Error> {
        let problem = c_text(problem)?;
        let kernel = kernel.map(c_text).transpose()?;
        let request = ffi::Request {
            size: std::mem::size_of::<ffi::Request>(),
            problem: problem.as_ptr(),
            kernel: kernel.as_ref().map_or(ptr::null(), |text| text.as_ptr()),
            policy: policy as u32,
            flags: 0,
            r#mod: ptr::null(),
            mask_mod: ptr::null(),
            sizes: sizes.map_or(ptr::null(), |sizes| &sizes.0),
        };
        let mut plan = ptr::null_mut();
        check(unsafe { ffi::fatune_plan_make(self.0, &request, &mut plan) })?;
        Ok(Plan(plan))
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        unsafe { ffi::fatune_close(self.0) }
    }
}

/// The sizes of a call.
pub struct Sizes(ffi::Sizes); // whose `size` says how much of it the library reads

impl Sizes {
    /// Batch, query heads, KV heads, rows of Q, rows of K and V.
    pub fn new(b: i64, h: i64, hk: i64, q: i64, k: i64) -> Sizes {
        Sizes(ffi::Sizes {
            size: std::mem::size_of::<ffi::Sizes>(),
            b,
            h,
            hk,
            q,
            k,
            total_q: 0,
            total_k: 0,
            window_left: 0,
            window_right: 0,
            chunk: 0,
            split: 0,
        })
    }

    /// Of a family with a window: keys to each side of the diagonal, -1: all.
    pub fn window(mut self, left: i64, right: i64) -> Sizes {
        self.0.window_left = left;
        self.0.window_right = right;
        self
    }

    /// Of a family with ragged batches: rows of Q, and of K and V, of all batches.
    pub fn totals(mut self, q: i64, k: i64) -> Sizes {
        (self.0.total_q, self.0.total_k) = (q, k);
        self
    }

    /// Of a family with chunks: keys of each.
    pub fn chunk(mut self, keys: i64) -> Sizes {
        self.0.chunk = keys;
        self
    }

    /// Of a family with splits: keys of each.
    pub fn split(mut self, keys: i64) -> Sizes {
        self.0.split = keys;
        self
    }
}

/// Where a tensor lies: device memory, and strides in elements from batch to batch, head to head, row to row.
pub fn tensor(data: *mut c_void, stride: [i64; 3]) -> Tensor {
    Tensor { data, stride }
}

/// A packed tensor [batch][heads][rows][width].
pub fn packed(data: *mut c_void, heads: i64, rows: i64, width: i64) -> Tensor {
    tensor(data, [heads * rows * width, rows * width, width])
}

/// The tensors of one call; it borrows them.
pub struct Call<'a> {
    tensors: ffi::Tensors,
    of: PhantomData<&'a Tensor>,
}

impl<'a> Call<'a> {
    pub fn forward(q: &'a Tensor, k: &'a Tensor, v: &'a Tensor, o: &'a Tensor, scale: f32) -> Call<'a> {
        // All else is absent, which is what zeros say.
        let mut tensors: ffi::Tensors = unsafe { std::mem::zeroed() };
        tensors.size = std::mem::size_of::<ffi::Tensors>();
        (tensors.Q, tensors.K, tensors.V, tensors.O, tensors.scale) = (q, k, v, o, scale);
        Call { tensors, of: PhantomData }
    }

    /// The log-sum-exp of each row, [b][h][q] of f32: an output of the forward, an input of the backward.
    pub fn lse(mut self, lse: &'a Tensor) -> Call<'a> {
        self.tensors.LSE = lse;
        self
    }

    /// Of a family with a sink: [h] of f32.
    pub fn sink(mut self, sink: &'a Tensor) -> Call<'a> {
        self.tensors.sink = sink;
        self
    }

    /// Makes a forward's call that of its gradients.
    pub fn gradients(mut self, d_o: &'a Tensor, dq: &'a Tensor, dk: &'a Tensor, dv: &'a Tensor) -> Call<'a> {
        (self.tensors.dO, self.tensors.dQ, self.tensors.dK, self.tensors.dV) = (d_o, dq, dk, dv);
        self
    }
}

/// A choice that can be launched in the context that it was made in; it must not outlive that.
pub struct Plan(*mut ffi::PlanHandle);

unsafe impl Send for Plan {}
unsafe impl Sync for Plan {}

impl Plan {
    /// Bytes of device memory that a call of these sizes needs beside its tensors.
    pub fn workspace(&self, sizes: &Sizes) -> Result<usize, Error> {
        let mut bytes = 0;
        check(unsafe { ffi::fatune_workspace(self.0, &sizes.0, &mut bytes) })?;
        Ok(bytes)
    }

    /// What serves and why, as lines of `name value`.
    pub fn describe(&self) -> String {
        text_of(unsafe { ffi::fatune_describe(self.0) })
    }

    /// Queues the call on a stream (null: the default stream).
    ///
    /// # Safety
    /// The tensors must name device memory of the plan's context, as large as the sizes say and alive until the stream is
    /// done; `workspace` must be `workspace(sizes)` bytes of it that no other stream uses meanwhile.
    pub unsafe fn run(&self, call: &Call, sizes: &Sizes, workspace: *mut c_void, stream: *mut c_void) -> Result<(), Error> {
        check(ffi::fatune_run(self.0, &call.tensors, &sizes.0, workspace, stream))
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        unsafe { ffi::fatune_plan_free(self.0) }
    }
}
