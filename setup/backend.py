"""backend.py -- builds the wheel (PEP 517): CMake's install, and bindings/python/fatune around it.

In: this checkout, or a source distribution of it. Out: fatune-V-py3-none-manylinux_2_N_ARCH.whl, where N is what the
binaries really ask of glibc, read from their symbol versions. The package has bin/ (the program), lib/ (the two libraries),
include/, share/ (rows; cubins and sources where FATUNE_CUBINS names GPUs, as for CMake).

Written here because the usual backends tag such a wheel `linux`, which no index takes, and come with a tree of packages; this
one needs no network."""

import base64
import glob
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
import zipfile

try:
    import tomllib
except ImportError:  # before Python 3.11
    import tomli as tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Of what CMake installs, by the package's folder.
NATIVE = {"bin": ["bin/fatune"], "lib": [f"lib*/**/libfatune{part}.so.0" for part in ("", "-jit", "-python", "-xla")],
          "include": ["include/fatune.h"],
          "share/fatune": ["share/fatune/fatune.db"]}
EPOCH = (1980, 1, 1, 0, 0, 0)  # of every file, so that equal contents make equal wheels


def version():
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="ascii") as f:
        return re.search(r"project\(fatune VERSION ([0-9.]+)", f.read())[1]


def project():
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as f:
        return tomllib.load(f)["project"]


def run(*command):
    print("+", " ".join(command), flush=True)
    subprocess.run(command, check=True)


def build(folder):
    """CMake's install of everything below `folder`; returns its prefix."""
    if not shutil.which("cmake") or not shutil.which("ninja") or not shutil.which("pkg-config"):
        run(os.path.join(ROOT, "setup", "packages.sh"), "build")
    prefix, made = os.path.join(folder, "prefix"), os.path.join(folder, "build")
    options = [f"-DFATUNE_CUBINS={os.environ.get('FATUNE_CUBINS', '')}", "-DFATUNE_TESTS=OFF", "-DCMAKE_BUILD_TYPE=Release"]
    run("cmake", "-G", "Ninja", "-S", ROOT, "-B", made, f"-DCMAKE_INSTALL_PREFIX={prefix}", *options)
    run("cmake", "--build", made, "--target", "installable")
    run("cmake", "--install", made, "--strip")
    return prefix


def native(prefix):
    """(name in the wheel, file) of what CMake installed."""
    for folder, patterns in NATIVE.items():
        for pattern in patterns:
            found = glob.glob(os.path.join(prefix, pattern), recursive=True)
            if len(found) == 0:
                raise SystemExit(f"backend.py: the build installed no {pattern}")
            yield f"fatune/{folder}/{os.path.basename(pattern)}", os.path.realpath(found[0])


def sources():
    """(name in the wheel, file) of the package's Python."""
    folder = os.path.join(ROOT, "bindings", "python")
    for path in sorted(glob.glob(os.path.join(folder, "fatune", "**", "*.py"), recursive=True)):
        yield os.path.relpath(path, folder), path


def glibc(files):
    """The newest GLIBC_2.N that any of the binaries asks for."""
    newest = 17  # the oldest of manylinux
    for path in files:
        with open(path, "rb") as f:
            newest = max([newest, *(int(n) for n in re.findall(rb"GLIBC_2\.(\d+)", f.read()))])
    return newest


def metadata():
    p = project()
    lines = ["Metadata-Version: 2.1", f"Name: {p['name']}", f"Version: {version()}", f"Summary: {p['description']}",
             f"License: {p['license']}", f"Requires-Python: {p['requires-python']}", "Description-Content-Type: text/markdown"]
    lines += [f"Requires-Dist: {need}" for need in p["dependencies"]]
    for extra, needs in p["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}"] + [f"Requires-Dist: {need} ; extra == '{extra}'" for need in needs]
    with open(os.path.join(ROOT, p["readme"]), encoding="utf-8") as f:
        return "\n".join(lines) + "\n\n" + f.read()


def information(tag):
    """(name, text) of the files of .dist-info but RECORD."""
    scripts = "\n".join(f"{name} = {at}" for name, at in project()["scripts"].items())
    with open(os.path.join(ROOT, "LICENSE"), encoding="utf-8") as f:
        licence = f.read()
    return (("METADATA", metadata()), ("entry_points.txt", f"[console_scripts]\n{scripts}\n"), ("LICENSE", licence),
            ("WHEEL", f"Wheel-Version: 1.0\nGenerator: fatune's setup/backend.py\nRoot-Is-Purelib: false\nTag: {tag}\n"))


class Wheel:
    def __init__(self, path):
        self.zip, self.record = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED), []

    def add(self, name, data, mode=0o644):
        info = zipfile.ZipInfo(name, EPOCH)
        info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, (0o100000 | mode) << 16
        self.zip.writestr(info, data, compresslevel=9)  # that of the archive is not an entry's that has its own info
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def close(self, name):
        self.record.append(f"{name},,")
        self.zip.writestr(zipfile.ZipInfo(name, EPOCH), "\n".join(self.record) + "\n", zipfile.ZIP_DEFLATED)
        self.zip.close()


def write(folder, files):
    """A wheel of the package's Python and of `files`."""
    tag = f"py3-none-manylinux_2_{glibc(path for _, path in files)}_{platform.machine()}"
    about, name = f"fatune-{version()}.dist-info", f"fatune-{version()}-{tag}.whl"
    wheel = Wheel(os.path.join(folder, name))
    for inside, path in [*sources(), *files]:
        with open(path, "rb") as f:
            wheel.add(inside, f.read(), 0o755 if inside.startswith(("fatune/bin/", "fatune/lib/")) else 0o644)
    for inside, text in information(tag):
        wheel.add(f"{about}/{inside}", text.encode())
    wheel.close(f"{about}/RECORD")
    return name


# ---- what pip calls


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory() as folder:
        return write(wheel_directory, list(native(build(folder))))


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Without this pip would build the wheel twice."""
    folder = f"fatune-{version()}.dist-info"
    os.mkdir(os.path.join(metadata_directory, folder))
    for name, text in information(f"py3-none-linux_{platform.machine()}"):  # the tag is known after the build, and not asked for
        with open(os.path.join(metadata_directory, folder, name), "w", encoding="utf-8") as f:
            f.write(text)
    return folder


def build_sdist(sdist_directory, config_settings=None):
    """Every file that git knows, as it is now."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True).stdout.decode()
    name = f"fatune-{version()}"
    with tarfile.open(os.path.join(sdist_directory, name + ".tar.gz"), "w:gz") as tar:
        for path in filter(None, listed.split("\0")):
            if not path.startswith("bench/results/"):
                tar.add(os.path.join(ROOT, path), f"{name}/{path}")
        with tempfile.NamedTemporaryFile("w", suffix="PKG-INFO", encoding="utf-8") as f:
            f.write(metadata())
            f.flush()
            tar.add(f.name, f"{name}/PKG-INFO")
    return name + ".tar.gz"
