// The system calls that Node has no name for, and the write with its sync in one hop to a thread.
// lib/io/native_binding.ts says what each is for.
//
// There is no policy here: a function checks its arguments, makes one call (or one write and one
// sync), and answers with its result or with Node's error. It loops only where libuv does, to make
// an interrupted call again. A call that this system lacks isn't exported, and the stand-in in
// TypeScript acts.
//
// Node-API only, so that a build serves every later version of Node; through node-addon-api, with
// C++ exceptions off. What fails inside it leaves a JavaScript exception pending, to which there is
// nothing to add: the empty value that is returned then is not looked at.

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
#include <uv.h>

// A worker thread that is being terminated can't settle its promises nor throw any more; without
// this the whole process would end over it.
#define NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS
#include <napi.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace {

// ---- Errors -------------------------------------------------------------------------------------

// Errors of files and locks that libuv has no name for, or that of a socket's error.
struct ErrorName {
  int errnum;
  const char* name;
  const char* text;
};
const ErrorName error_names[] = {
    {EDQUOT, "EDQUOT", "disk quota exceeded"},
    {ENOLCK, "ENOLCK", "no locks available"},
    {EOPNOTSUPP, "EOPNOTSUPP", "operation not supported"},
    {ESTALE, "ESTALE", "stale file handle"},
};

// Node's error for a failed system call: "EIO: i/o error, fdatasync", with code, errno, syscall.
Napi::Error system_error(Napi::Env env, int errnum, const char* syscall) {
  int code = uv_translate_sys_error(errnum);
  char name[32];
  char text[128];
  uv_err_name_r(code, name, sizeof name);
  uv_strerror_r(code, text, sizeof text);
  for (const ErrorName& own : error_names) {
    if (own.errnum != errnum) continue;
    snprintf(name, sizeof name, "%s", own.name);
    snprintf(text, sizeof text, "%s", own.text);
  }
  Napi::Error error = Napi::Error::New(env, std::string(name) + ": " + text + ", " + syscall);
  error.Set("code", name);
  error.Set("errno", Napi::Number::New(env, code));
  error.Set("syscall", syscall);
  return error;
}

Napi::Value throw_system_error(Napi::Env env, int errnum, const char* syscall) {
  system_error(env, errnum, syscall).ThrowAsJavaScriptException();
  return Napi::Value();
}

// ---- Arguments ----------------------------------------------------------------------------------

// The arguments of one call. The first that is wrong throws, and `ok` stays false after it.
class Arguments {
 public:
  explicit Arguments(const Napi::CallbackInfo& info) : info_(info) {}

  bool ok() const { return ok_; }

  int fd(size_t index) { return static_cast<int>(integer(index, "fd", INT_MAX)); }

  // Bytes, 0 to 2^53 - 1: what a JavaScript number holds exactly.
  int64_t bytes(size_t index, const char* name) {
    return integer(index, name, (int64_t{1} << 53) - 1);
  }

  iovec memory(size_t index) { return memory_of(info_[index]); }

  // Straight from Node-API: its type, its place and its length in one call, where the classes of
  // node-addon-api make three. A read from the page cache takes less than a microsecond.
  iovec memory_of(napi_value value) {
    iovec memory = {nullptr, 0};
    napi_typedarray_type type;
    if (!ok_) return memory;
    if (napi_get_typedarray_info(info_.Env(), value, &type, &memory.iov_len, &memory.iov_base,
                                 nullptr, nullptr) != napi_ok ||
        type != napi_uint8_array) {
      refuse<Napi::TypeError>("Cannot take memory: it must be a Uint8Array");
    }
    return memory;
  }

  Napi::Array array(size_t index, const char* name) {
    if (ok_ && info_[index].IsArray()) return info_[index].As<Napi::Array>();
    refuse<Napi::TypeError>(std::string("Cannot take ") + name + ": it must be an array");
    return Napi::Array();
  }

  // The number that stands beside the text in `words`.
  struct Word {
    const char* text;
    int value;
  };
  int word(size_t index, std::initializer_list<Word> words) {
    if (!ok_) return 0;
    if (info_[index].IsString()) {
      std::string text = info_[index].As<Napi::String>();
      for (const Word& word : words) {
        if (text == word.text) return word.value;
      }
    }
    refuse<Napi::TypeError>("Cannot take the word: this system has no such option");
    return 0;
  }

 private:
  int64_t integer(size_t index, const char* name, int64_t max) {
    if (!ok_) return 0;
    if (info_[index].IsNumber()) {
      double number = info_[index].As<Napi::Number>();
      if (number >= 0 && number <= static_cast<double>(max) && number == trunc(number)) {
        return static_cast<int64_t>(number);
      }
    }
    refuse<Napi::RangeError>(std::string("Cannot take ") + name +
                             ": it must be an integer from 0 to " + std::to_string(max));
    return 0;
  }

  template <typename Error>
  void refuse(const std::string& message) {
    // A getter among the arguments may have thrown.
    bool is_first = ok_ && !info_.Env().IsExceptionPending();
    if (is_first) Error::New(info_.Env(), message).ThrowAsJavaScriptException();
    ok_ = false;
  }

  const Napi::CallbackInfo& info_;
  bool ok_ = true;
};

// ---- Calls on a thread --------------------------------------------------------------------------

#ifdef __linux__

// How a call ended.
struct Outcome {
  const char* syscall;
  ssize_t result;
  int errnum;
};

// Makes a call; again if it was only interrupted, as libuv has it for its own.
template <typename Call>
Outcome make(const char* syscall, Call call) {
  ssize_t result;
  do {
    result = call();
  } while (result == -1 && errno == EINTR);
  return {syscall, result, result == -1 ? errno : 0};
}

// `Work` is all that happens on the thread: it gives an Outcome, and knows nothing of JavaScript.
// The promise of a call with buffers tells the result, that of any other only that it succeeded.
template <typename Work>
class Request final : public Napi::AsyncWorker {
 public:
  Request(Napi::Env env, napi_deferred deferred, Work work, Napi::Array buffers)
      : AsyncWorker(env, "forcelog"), deferred_(deferred), work_(std::move(work)) {
    if (!buffers.IsEmpty()) buffers_ = Napi::Persistent(buffers);
  }

 private:
  void Execute() override {
    outcome_ = work_();
    if (outcome_.errnum != 0) SetError(outcome_.syscall);
  }

  void OnOK() override {
    Napi::Value answer = buffers_.IsEmpty() ? Env().Undefined()
                                            : Napi::Number::New(Env(), outcome_.result);
    napi_resolve_deferred(Env(), deferred_, answer);
  }

  void OnError(const Napi::Error&) override {
    Napi::Error error = system_error(Env(), outcome_.errnum, outcome_.syscall);
    napi_reject_deferred(Env(), deferred_, error.Value());
  }

  napi_deferred deferred_;
  Napi::Reference<Napi::Array> buffers_;
  Work work_;
  Outcome outcome_;
};

// Hands the work to libuv's threads and returns the promise. The request releases itself.
// Not with Napi::Promise::Deferred: it can't say that there is no promise, as in a worker thread
// that is being terminated.
template <typename Work>
Napi::Value submit(Napi::Env env, Work work, Napi::Array buffers = Napi::Array()) {
  napi_deferred deferred;
  napi_value promise;
  if (napi_create_promise(env, &deferred, &promise) != napi_ok) return Napi::Value();
  (new Request<Work>(env, deferred, std::move(work), buffers))->Queue();
  return Napi::Value(env, promise);
}

// The buffers are noted one by one in an array of our own, so that they stay alive whatever the
// caller does with his.
Napi::Value PwritevThenFdatasync(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  int fd = arguments.fd(0);
  Napi::Array given = arguments.array(1, "buffers");
  int64_t position = arguments.bytes(2, "position");
  if (!arguments.ok()) return Napi::Value();

  uint32_t count = given.Length();
  Napi::Array kept = Napi::Array::New(info.Env(), count);
  std::vector<iovec> buffers(count);
  ssize_t length = 0;
  for (uint32_t i = 0; i < count && arguments.ok(); i++) {
    Napi::Value value = given[i];
    kept[i] = value;
    buffers[i] = arguments.memory_of(value);
    length += static_cast<ssize_t>(buffers[i].iov_len);
  }
  if (!arguments.ok()) return Napi::Value();
  auto work = [fd, position, length, buffers = std::move(buffers)] {
    Outcome written = make("pwritev", [&] {
      return pwritev(fd, buffers.data(), static_cast<int>(buffers.size()), position);
    });
    if (written.result != length) return written;
    Outcome synced = make("fdatasync", [&] { return fdatasync(fd); });
    return synced.errnum == 0 ? written : synced;
  };
  return submit(info.Env(), std::move(work), kept);
}

Napi::Value Fallocate(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  int fd = arguments.fd(0);
  int mode = arguments.word(1, {
      {"allocate", FALLOC_FL_KEEP_SIZE},
      {"punch", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE},
  });
  int64_t position = arguments.bytes(2, "position");
  int64_t length = arguments.bytes(3, "length");
  if (!arguments.ok()) return Napi::Value();
  return submit(info.Env(), [=] {
    return make("fallocate", [=] { return fallocate(fd, mode, position, length); });
  });
}

Napi::Value PosixFadvise(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  int fd = arguments.fd(0);
  int64_t position = arguments.bytes(1, "position");
  int64_t length = arguments.bytes(2, "length");
  int advice = arguments.word(3, {
      {"normal", POSIX_FADV_NORMAL},
      {"sequential", POSIX_FADV_SEQUENTIAL},
      {"random", POSIX_FADV_RANDOM},
      {"willneed", POSIX_FADV_WILLNEED},
      {"dontneed", POSIX_FADV_DONTNEED},
  });
  if (!arguments.ok()) return Napi::Value();
  return submit(info.Env(), [=] {
    return Outcome{"posix_fadvise", 0, posix_fadvise(fd, position, length, advice)};
  });
}

#endif  // __linux__

// ---- Calls at once ------------------------------------------------------------------------------

#ifdef RWF_NOWAIT

Napi::Value Preadv2NoWait(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  int fd = arguments.fd(0);
  iovec buffer = arguments.memory(1);
  int64_t position = arguments.bytes(2, "position");
  if (!arguments.ok()) return Napi::Value();
  ssize_t result = preadv2(fd, &buffer, 1, position, RWF_NOWAIT);
  // Not in the page cache; or a kernel or a file system that doesn't know the flag.
  bool would_wait = result == -1 && (errno == EAGAIN || errno == EOPNOTSUPP || errno == ENOSYS);
  if (result == -1 && !would_wait) return throw_system_error(info.Env(), errno, "preadv2");
  return Napi::Number::New(info.Env(), result);
}

#endif  // RWF_NOWAIT

// Only the pages that lie within the buffer: it seldom begins and ends with one, and the rest of
// its first and last page is somebody else's.
Napi::Value Madvise(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  iovec memory = arguments.memory(0);
  int advice = arguments.word(1, {
      {"willneed", MADV_WILLNEED},
#ifdef MADV_HUGEPAGE
      {"hugepage", MADV_HUGEPAGE},
      {"nohugepage", MADV_NOHUGEPAGE},
#endif
#ifdef MADV_DONTDUMP
      {"dontdump", MADV_DONTDUMP},
#endif
#ifdef __linux__
      {"populate_write", 23},  // MADV_POPULATE_WRITE, Linux 5.14; not in every libc yet
#endif
  });
  if (!arguments.ok()) return Napi::Value();
  uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  uintptr_t base = reinterpret_cast<uintptr_t>(memory.iov_base);
  uintptr_t start = (base + page - 1) & ~(page - 1);
  uintptr_t end = (base + memory.iov_len) & ~(page - 1);
  if (start < end && madvise(reinterpret_cast<void*>(start), end - start, advice) == -1) {
    return throw_system_error(info.Env(), errno, "madvise");
  }
  return Napi::Value();
}

Napi::Value Mlock(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  iovec memory = arguments.memory(0);
  if (arguments.ok() && mlock(memory.iov_base, memory.iov_len) == -1) {
    return throw_system_error(info.Env(), errno, "mlock");
  }
  return Napi::Value();
}

Napi::Value Munlock(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  iovec memory = arguments.memory(0);
  if (arguments.ok() && munlock(memory.iov_base, memory.iov_len) == -1) {
    return throw_system_error(info.Env(), errno, "munlock");
  }
  return Napi::Value();
}

#ifdef F_OFD_SETLK

// (fd, start, length) of an exclusive record lock.
struct flock record_lock(Arguments* arguments) {
  struct flock lock;
  memset(&lock, 0, sizeof lock);
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = arguments->bytes(1, "start");
  lock.l_len = arguments->bytes(2, "length");
  return lock;
}

Napi::Value SetOfdLock(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  int fd = arguments.fd(0);
  struct flock lock = record_lock(&arguments);
  if (!arguments.ok()) return Napi::Value();
  bool taken = fcntl(fd, F_OFD_SETLK, &lock) == 0;
  if (!taken && errno != EAGAIN && errno != EACCES) {
    return throw_system_error(info.Env(), errno, "fcntl");
  }
  return Napi::Boolean::New(info.Env(), taken);
}

Napi::Value GetPosixLockHolder(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  int fd = arguments.fd(0);
  struct flock lock = record_lock(&arguments);
  if (!arguments.ok()) return Napi::Value();
  if (fcntl(fd, F_OFD_GETLK, &lock) == -1) return throw_system_error(info.Env(), errno, "fcntl");
  return Napi::Number::New(info.Env(), lock.l_type == F_UNLCK ? -1 : lock.l_pid);
}

#endif  // F_OFD_SETLK

Napi::Value Flock(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  int fd = arguments.fd(0);
  if (!arguments.ok()) return Napi::Value();
  bool taken = flock(fd, LOCK_EX | LOCK_NB) == 0;
  if (!taken && errno != EWOULDBLOCK) return throw_system_error(info.Env(), errno, "flock");
  return Napi::Boolean::New(info.Env(), taken);
}

// ---- Exports ------------------------------------------------------------------------------------

template <Napi::Function::Callback Call>
void add(Napi::Object exports, const char* name) {
  exports.Set(name, Napi::Function::New<Call>(exports.Env(), name));
}

Napi::Object init(Napi::Env, Napi::Object exports) {
#ifdef __linux__
  add<PwritevThenFdatasync>(exports, "pwritevThenFdatasync");
  add<Fallocate>(exports, "fallocate");
  add<PosixFadvise>(exports, "posixFadvise");
#endif
#ifdef RWF_NOWAIT
  add<Preadv2NoWait>(exports, "preadv2NoWait");
#endif
  add<Madvise>(exports, "madvise");
  add<Mlock>(exports, "mlock");
  add<Munlock>(exports, "munlock");
#ifdef F_OFD_SETLK
  add<SetOfdLock>(exports, "setOfdLock");
  add<GetPosixLockHolder>(exports, "getPosixLockHolder");
#endif
  add<Flock>(exports, "flock");
  return exports;
}

}  // namespace

NODE_API_MODULE(forcelog, init)
