// The system calls that Node has no name for, and the write with its sync in one hop to a thread.
// lib/io/native_binding.ts says what each is for.
//
// There is no policy here: a function checks its arguments, makes one call (or one write and one
// sync), and answers with its result or with Node's error. It loops only where libuv does, to make
// an interrupted call again. A call that this system lacks isn't exported, and the stand-in in
// TypeScript acts.
//
// Node-API only, so that a build serves every later version of Node.

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <node_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
#include <uv.h>

namespace {

// A Node-API call that fails here has left a JavaScript exception pending, or the environment is
// going away: there is nothing to add to either.
#define TRY(call) \
  do { \
    if ((call) != napi_ok) return nullptr; \
  } while (0)

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
napi_value system_error(napi_env env, int errnum, const char* syscall) {
  int code = uv_translate_sys_error(errnum);
  char name[32];
  char text[128];
  char message[256];
  uv_err_name_r(code, name, sizeof name);
  uv_strerror_r(code, text, sizeof text);
  for (const ErrorName& own : error_names) {
    if (own.errnum != errnum) continue;
    snprintf(name, sizeof name, "%s", own.name);
    snprintf(text, sizeof text, "%s", own.text);
  }
  snprintf(message, sizeof message, "%s: %s, %s", name, text, syscall);

  napi_value name_value, message_value, errno_value, syscall_value, error;
  TRY(napi_create_string_utf8(env, name, NAPI_AUTO_LENGTH, &name_value));
  TRY(napi_create_string_utf8(env, message, NAPI_AUTO_LENGTH, &message_value));
  TRY(napi_create_string_utf8(env, syscall, NAPI_AUTO_LENGTH, &syscall_value));
  TRY(napi_create_int32(env, code, &errno_value));
  TRY(napi_create_error(env, name_value, message_value, &error));
  TRY(napi_set_named_property(env, error, "errno", errno_value));
  TRY(napi_set_named_property(env, error, "syscall", syscall_value));
  return error;
}

napi_value throw_system_error(napi_env env, int errnum, const char* syscall) {
  napi_value error = system_error(env, errnum, syscall);
  if (error != nullptr) napi_throw(env, error);
  return nullptr;
}

// ---- Arguments ----------------------------------------------------------------------------------

// The arguments of one call. The first that is wrong throws, and `ok` stays false after it.
class Arguments {
 public:
  Arguments(napi_env env, napi_callback_info info) : env_(env) {
    size_t count = kMax;
    ok_ = napi_get_cb_info(env, info, &count, values_, nullptr, nullptr) == napi_ok;
  }

  bool ok() const { return ok_; }

  napi_value value(size_t index) const { return values_[index]; }

  int fd(size_t index) { return static_cast<int>(integer(index, "fd", INT_MAX)); }

  // Bytes, 0 to 2^53 - 1: what a JavaScript number holds exactly.
  int64_t bytes(size_t index, const char* name) {
    return integer(index, name, (int64_t{1} << 53) - 1);
  }

  napi_value element(size_t index, uint32_t i) {
    napi_value value = nullptr;
    if (ok_) ok_ = napi_get_element(env_, values_[index], i, &value) == napi_ok;
    return value;
  }

  iovec memory(size_t index) { return memory_of(values_[index]); }

  iovec memory_of(napi_value value) {
    iovec memory = {nullptr, 0};
    bool is_view = false;
    if (!ok_) return memory;
    ok_ = napi_is_buffer(env_, value, &is_view) == napi_ok && is_view &&
          napi_get_buffer_info(env_, value, &memory.iov_base, &memory.iov_len) == napi_ok;
    if (!ok_) napi_throw_type_error(env_, nullptr, "Cannot take memory: it must be a Uint8Array");
    return memory;
  }

  // The number that stands beside the text in `table`, which ends with a name of nullptr.
  struct Word {
    const char* name;
    int value;
  };
  int word(size_t index, const Word* table) {
    char text[32];
    if (!ok_) return 0;
    if (napi_get_value_string_latin1(env_, values_[index], text, sizeof text, nullptr) == napi_ok) {
      for (; table->name != nullptr; table++) {
        if (strcmp(table->name, text) == 0) return table->value;
      }
    }
    ok_ = false;
    napi_throw_type_error(env_, nullptr, "Cannot take the word: this system has no such option");
    return 0;
  }

 private:
  static constexpr size_t kMax = 4;

  int64_t integer(size_t index, const char* name, int64_t max) {
    double number;
    if (!ok_) return 0;
    if (napi_get_value_double(env_, values_[index], &number) == napi_ok && number >= 0 &&
        number <= static_cast<double>(max) && number == trunc(number)) {
      return static_cast<int64_t>(number);
    }
    ok_ = false;
    char message[96];
    snprintf(message, sizeof message, "Cannot take %s: it must be an integer from 0 to %lld", name,
             static_cast<long long>(max));
    napi_throw_range_error(env_, nullptr, message);
    return 0;
  }

  napi_env env_;
  napi_value values_[kMax];
  bool ok_;
};

// ---- Calls on a thread --------------------------------------------------------------------------

#ifdef __linux__

// One call on its way. `run` is all that happens on the thread; it touches nothing of JavaScript.
struct Request {
  void (*run)(Request*);

  int fd;
  int option;
  int64_t position;
  int64_t length;
  size_t buffer_count;

  ssize_t result;
  int errnum;
  const char* syscall;
  bool answers_bytes;

  napi_async_work work;
  napi_deferred deferred;
  napi_ref buffers_kept;

  iovec buffers[1];  // in truth as many as buffer_count
};

Request* new_request(void (*run)(Request*), int fd, size_t buffer_count) {
  size_t size = sizeof(Request) + buffer_count * sizeof(iovec);
  Request* request = static_cast<Request*>(calloc(1, size));
  if (request == nullptr) abort();
  request->run = run;
  request->fd = fd;
  request->buffer_count = buffer_count;
  return request;
}

void release(napi_env env, Request* request) {
  if (request->buffers_kept != nullptr) napi_delete_reference(env, request->buffers_kept);
  if (request->work != nullptr) napi_delete_async_work(env, request->work);
  free(request);
}

void on_thread(napi_env, void* data) {
  Request* request = static_cast<Request*>(data);
  request->run(request);
}

void on_done(napi_env env, napi_status status, void* data) {
  Request* request = static_cast<Request*>(data);
  napi_value answer = nullptr;
  if (status == napi_cancelled) request->errnum = ECANCELED;
  if (request->errnum != 0) {
    answer = system_error(env, request->errnum, request->syscall);
    if (answer != nullptr) napi_reject_deferred(env, request->deferred, answer);
  } else {
    napi_status made = request->answers_bytes
                           ? napi_create_int64(env, request->result, &answer)
                           : napi_get_undefined(env, &answer);
    if (made == napi_ok) napi_resolve_deferred(env, request->deferred, answer);
  }
  release(env, request);
}

// Hands the request to libuv's threads. Returns the promise, or nullptr with the request released.
napi_value submit(napi_env env, Request* request) {
  napi_value promise, name;
  if (napi_create_string_latin1(env, "forcelog", 8, &name) != napi_ok ||
      napi_create_async_work(env, nullptr, name, on_thread, on_done, request, &request->work) !=
          napi_ok ||
      napi_create_promise(env, &request->deferred, &promise) != napi_ok ||
      napi_queue_async_work(env, request->work) != napi_ok) {
    release(env, request);
    return nullptr;
  }
  return promise;
}

// Notes how a call ended; again if it was only interrupted, as libuv has it for its own.
template <typename Call>
void make(Request* request, const char* syscall, Call call) {
  ssize_t result;
  do {
    result = call();
  } while (result == -1 && errno == EINTR);
  request->syscall = syscall;
  request->errnum = result == -1 ? errno : 0;
  request->result = result;
}

void run_pwritev_then_fdatasync(Request* request) {
  make(request, "pwritev", [=] {
    return pwritev(request->fd, request->buffers, static_cast<int>(request->buffer_count),
                   request->position);
  });
  ssize_t written = request->result;
  if (request->errnum != 0 || written != request->length) return;
  make(request, "fdatasync", [=] { return fdatasync(request->fd); });
  request->result = written;
}

void run_fallocate(Request* request) {
  make(request, "fallocate", [=] {
    return fallocate(request->fd, request->option, request->position, request->length);
  });
}

void run_posix_fadvise(Request* request) {
  request->syscall = "posix_fadvise";
  request->errnum =
      posix_fadvise(request->fd, request->position, request->length, request->option);
}

// The buffers are noted one by one in an array of our own, so that they stay alive whatever the
// caller does with his.
napi_value PwritevThenFdatasync(napi_env env, napi_callback_info info) {
  Arguments arguments(env, info);
  int fd = arguments.fd(0);
  int64_t position = arguments.bytes(2, "position");
  if (!arguments.ok()) return nullptr;

  uint32_t count = 0;
  if (napi_get_array_length(env, arguments.value(1), &count) != napi_ok) {
    napi_throw_type_error(env, nullptr, "Cannot take buffers: it must be an array");
    return nullptr;
  }
  napi_value kept;
  TRY(napi_create_array_with_length(env, count, &kept));
  Request* request = new_request(run_pwritev_then_fdatasync, fd, count);
  request->position = position;
  request->answers_bytes = true;
  for (uint32_t i = 0; i < count && arguments.ok(); i++) {
    napi_value value = arguments.element(1, i);
    request->buffers[i] = arguments.memory_of(value);
    request->length += static_cast<int64_t>(request->buffers[i].iov_len);
    if (arguments.ok()) napi_set_element(env, kept, i, value);
  }
  if (!arguments.ok() || napi_create_reference(env, kept, 1, &request->buffers_kept) != napi_ok) {
    release(env, request);
    return nullptr;
  }
  return submit(env, request);
}

napi_value Fallocate(napi_env env, napi_callback_info info) {
  static const Arguments::Word modes[] = {
      {"allocate", FALLOC_FL_KEEP_SIZE},
      {"punch", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE},
      {nullptr, 0},
  };
  Arguments arguments(env, info);
  int fd = arguments.fd(0);
  int mode = arguments.word(1, modes);
  int64_t position = arguments.bytes(2, "position");
  int64_t length = arguments.bytes(3, "length");
  if (!arguments.ok()) return nullptr;
  Request* request = new_request(run_fallocate, fd, 0);
  request->option = mode;
  request->position = position;
  request->length = length;
  return submit(env, request);
}

napi_value PosixFadvise(napi_env env, napi_callback_info info) {
  static const Arguments::Word advices[] = {
      {"normal", POSIX_FADV_NORMAL},     {"sequential", POSIX_FADV_SEQUENTIAL},
      {"random", POSIX_FADV_RANDOM},     {"willneed", POSIX_FADV_WILLNEED},
      {"dontneed", POSIX_FADV_DONTNEED}, {nullptr, 0},
  };
  Arguments arguments(env, info);
  int fd = arguments.fd(0);
  int64_t position = arguments.bytes(1, "position");
  int64_t length = arguments.bytes(2, "length");
  int advice = arguments.word(3, advices);
  if (!arguments.ok()) return nullptr;
  Request* request = new_request(run_posix_fadvise, fd, 0);
  request->option = advice;
  request->position = position;
  request->length = length;
  return submit(env, request);
}

#endif  // __linux__

// ---- Calls at once ------------------------------------------------------------------------------

napi_value boolean(napi_env env, bool value) {
  napi_value answer;
  TRY(napi_get_boolean(env, value, &answer));
  return answer;
}

napi_value integer(napi_env env, int64_t value) {
  napi_value answer;
  TRY(napi_create_int64(env, value, &answer));
  return answer;
}

#ifdef RWF_NOWAIT

napi_value Preadv2NoWait(napi_env env, napi_callback_info info) {
  Arguments arguments(env, info);
  int fd = arguments.fd(0);
  iovec buffer = arguments.memory(1);
  int64_t position = arguments.bytes(2, "position");
  if (!arguments.ok()) return nullptr;
  ssize_t result = preadv2(fd, &buffer, 1, position, RWF_NOWAIT);
  // Not in the page cache; or a kernel or a file system that doesn't know the flag.
  bool would_wait = result == -1 && (errno == EAGAIN || errno == EOPNOTSUPP || errno == ENOSYS);
  if (result == -1 && !would_wait) return throw_system_error(env, errno, "preadv2");
  return integer(env, result);
}

#endif  // RWF_NOWAIT

// Only the pages that lie within the buffer: it seldom begins and ends with one, and the rest of
// its first and last page is somebody else's.
napi_value Madvise(napi_env env, napi_callback_info info) {
  static const Arguments::Word advices[] = {
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
      {nullptr, 0},
  };
  Arguments arguments(env, info);
  iovec memory = arguments.memory(0);
  int advice = arguments.word(1, advices);
  if (!arguments.ok()) return nullptr;
  uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  uintptr_t base = reinterpret_cast<uintptr_t>(memory.iov_base);
  uintptr_t start = (base + page - 1) & ~(page - 1);
  uintptr_t end = (base + memory.iov_len) & ~(page - 1);
  if (start < end && madvise(reinterpret_cast<void*>(start), end - start, advice) == -1) {
    return throw_system_error(env, errno, "madvise");
  }
  return nullptr;
}

napi_value Mlock(napi_env env, napi_callback_info info) {
  Arguments arguments(env, info);
  iovec memory = arguments.memory(0);
  if (!arguments.ok()) return nullptr;
  if (mlock(memory.iov_base, memory.iov_len) == -1) return throw_system_error(env, errno, "mlock");
  return nullptr;
}

napi_value Munlock(napi_env env, napi_callback_info info) {
  Arguments arguments(env, info);
  iovec memory = arguments.memory(0);
  if (!arguments.ok()) return nullptr;
  if (munlock(memory.iov_base, memory.iov_len) == -1) {
    return throw_system_error(env, errno, "munlock");
  }
  return nullptr;
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

napi_value SetOfdLock(napi_env env, napi_callback_info info) {
  Arguments arguments(env, info);
  int fd = arguments.fd(0);
  struct flock lock = record_lock(&arguments);
  if (!arguments.ok()) return nullptr;
  if (fcntl(fd, F_OFD_SETLK, &lock) == 0) return boolean(env, true);
  if (errno == EAGAIN || errno == EACCES) return boolean(env, false);
  return throw_system_error(env, errno, "fcntl");
}

napi_value GetPosixLockHolder(napi_env env, napi_callback_info info) {
  Arguments arguments(env, info);
  int fd = arguments.fd(0);
  struct flock lock = record_lock(&arguments);
  if (!arguments.ok()) return nullptr;
  if (fcntl(fd, F_OFD_GETLK, &lock) == -1) return throw_system_error(env, errno, "fcntl");
  return integer(env, lock.l_type == F_UNLCK ? -1 : lock.l_pid);
}

#endif  // F_OFD_SETLK

napi_value Flock(napi_env env, napi_callback_info info) {
  Arguments arguments(env, info);
  int fd = arguments.fd(0);
  if (!arguments.ok()) return nullptr;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return boolean(env, true);
  if (errno == EWOULDBLOCK) return boolean(env, false);
  return throw_system_error(env, errno, "flock");
}

}  // namespace

NAPI_MODULE_INIT() {
  const struct {
    const char* name;
    napi_callback call;
  } calls[] = {
#ifdef __linux__
      {"pwritevThenFdatasync", PwritevThenFdatasync},
      {"fallocate", Fallocate},
      {"posixFadvise", PosixFadvise},
#endif
#ifdef RWF_NOWAIT
      {"preadv2NoWait", Preadv2NoWait},
#endif
      {"madvise", Madvise},
      {"mlock", Mlock},
      {"munlock", Munlock},
#ifdef F_OFD_SETLK
      {"setOfdLock", SetOfdLock},
      {"getPosixLockHolder", GetPosixLockHolder},
#endif
      {"flock", Flock},
  };
  for (const auto& entry : calls) {
    napi_value function;
    TRY(napi_create_function(env, entry.name, NAPI_AUTO_LENGTH, entry.call, nullptr, &function));
    TRY(napi_set_named_property(env, exports, entry.name, function));
  }
  return exports;
}
