// The system calls that Node has no name for, and those that a force consists of, on threads of
// their own; and what takes JavaScript too long, CRCs and a look through many records.
// lib/io/native_binding.ts says what each is for.
//
// There is no policy here: a function checks its arguments, makes one call (one write and one sync, or
// those that it is given), and answers with its result or with Node's error. It loops only where libuv does, to make
// an interrupted call again. A call that this system lacks isn't exported, and the stand-in in
// TypeScript acts.
//
// Node-API only, so that a build serves every later version of Node; through node-addon-api, with
// C++ exceptions off. What fails inside it leaves a JavaScript exception pending, to which there is
// nothing to add: the empty value that is returned then is not looked at.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <uv.h>

// A worker thread that is being terminated can't settle its promises nor throw any more; without
// this the whole process would end over it.
#define NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS
#include <napi.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "crc32.h"
#include "record_run.h"

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

  std::string text(size_t index) {
    if (ok_ && info_[index].IsString()) return info_[index].As<Napi::String>();
    refuse<Napi::TypeError>("Cannot take the text: it must be a string");
    return std::string();
  }

  iovec memory(size_t index) { return memory_of(info_[index]); }

  iovec memory_of(napi_value value) {
    return numbers_of(value, napi_uint8_array, "Cannot take memory: it must be a Uint8Array");
  }

  // Numbers of a Float64Array; the length counts them.
  iovec doubles(size_t index) {
    return numbers_of(info_[index], napi_float64_array,
                      "Cannot take numbers: they must be a Float64Array");
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

  // Straight from Node-API: its type, its place and its length in one call, where the classes of
  // node-addon-api make three. A read from the page cache takes less than a microsecond.
  iovec numbers_of(napi_value value, napi_typedarray_type wanted, const char* refusal) {
    iovec numbers = {nullptr, 0};
    napi_typedarray_type type;
    if (!ok_) return numbers;
    if (napi_get_typedarray_info(info_.Env(), value, &type, &numbers.iov_len, &numbers.iov_base,
                                 nullptr, nullptr) != napi_ok ||
        type != wanted) {
      refuse<Napi::TypeError>(refusal);
    }
    return numbers;
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

// What the promise of a call that succeeded tells.
enum class Answer { kNothing, kResult };

// A call on its way to a thread and back.
class Errand {
 public:
  virtual ~Errand() = default;

  // All that happens on the thread. It knows nothing of JavaScript.
  void run() { outcome_ = work(); }

  // In place of run(), where there is no thread for it.
  void refuse(const char* syscall, int errnum) { outcome_ = {syscall, -1, errnum}; }

  // Back on JavaScript's thread. Does nothing in a worker thread that is being terminated.
  void settle(Napi::Env env) {
    if (outcome_.errnum != 0) {
      Napi::Error error = system_error(env, outcome_.errnum, outcome_.syscall);
      napi_reject_deferred(env, deferred_, error.Value());
      return;
    }
    napi_resolve_deferred(env, deferred_, value(env));
  }

  // In a Line.
  Errand* next = nullptr;

 protected:
  Errand(napi_deferred deferred, Answer answer, Napi::Array kept)
      : deferred_(deferred), answer_(answer) {
    if (!kept.IsEmpty()) kept_ = Napi::Persistent(kept);
  }

  virtual Outcome work() = 0;

  // What the promise tells.
  virtual Napi::Value value(Napi::Env env) {
    bool tells = answer_ == Answer::kResult;
    return tells ? Napi::Number::New(env, outcome_.result) : env.Undefined();
  }

 private:
  napi_deferred deferred_;
  Answer answer_;
  Napi::Reference<Napi::Array> kept_;
  Outcome outcome_ = {nullptr, 0, 0};
};

template <typename Work>
class ErrandOf final : public Errand {
 public:
  ErrandOf(napi_deferred deferred, Answer answer, Napi::Array kept, Work work)
      : Errand(deferred, answer, kept), work_(std::move(work)) {}

 private:
  Outcome work() override { return work_(); }

  Work work_;
};

// Makes the promise of some work, and hands the work to `carry`, which takes it to a thread.
//
// Not with Napi::Promise::Deferred: it can't say that there is no promise, as in a worker thread
// that is being terminated.
//
// parts: what the errand is made of, besides its promise.
template <typename Kind, typename Carry, typename... Parts>
Napi::Value submit(Napi::Env env, Carry carry, Parts&&... parts) {
  napi_deferred deferred;
  napi_value promise;
  if (napi_create_promise(env, &deferred, &promise) != napi_ok) return Napi::Value();
  carry(std::make_unique<Kind>(deferred, std::forward<Parts>(parts)...));
  return Napi::Value(env, promise);
}

// An errand on one of libuv's threads. Releases itself.
class PoolErrand final : public Napi::AsyncWorker {
 public:
  PoolErrand(Napi::Env env, std::unique_ptr<Errand> errand)
      : AsyncWorker(env, "forcelog"), errand_(std::move(errand)) {}

 private:
  void Execute() override { errand_->run(); }
  void OnOK() override { errand_->settle(Env()); }

  std::unique_ptr<Errand> errand_;
};

// On libuv's threads, which are the application's, too.
template <typename Work>
Napi::Value on_pool(Napi::Env env, Answer answer, Work work) {
  auto carry = [env](std::unique_ptr<Errand> errand) {
    (new PoolErrand(env, std::move(errand)))->Queue();
  };
  return submit<ErrandOf<Work>>(env, carry, answer, Napi::Array(), std::move(work));
}

// Errands that wait, the first one first, and how many are being run.
class Line {
 public:
  // running_max: at once.
  explicit Line(size_t running_max) : running_max_(running_max) {}

  // How many could begin now.
  size_t runnable() const { return std::min(waiting_, running_max_ - running_); }

  void push(Errand* errand) {
    (waiting_ == 0 ? first_ : last_->next) = errand;
    last_ = errand;
    waiting_ += 1;
  }

  Errand* begin() {
    Errand* errand = first_;
    first_ = errand->next;
    waiting_ -= 1;
    running_ += 1;
    return errand;
  }

  void ended() { running_ -= 1; }

 private:
  const size_t running_max_;
  Errand* first_ = nullptr;
  Errand* last_ = nullptr;
  size_t waiting_ = 0;
  size_t running_ = 0;
};

// What goes first: somebody waits for a force. A sync without a write is mostly behind the scenes, as a
// write alone is, which the kernel may hold up while it cleans pages. Calls of files and directories
// are nearly always.
enum Rank { kForce, kSync, kWrite, kCall, kRanks };

// Threads of our own for all that a put may have to wait for. On libuv's a force would wait until the
// application has hashed, compressed or looked up something.
//
// One object for each environment of Node: the main thread and every worker have their own.
// Threads begin when they are needed, one more whenever all are busy, and end with the environment.
// An idle one sleeps: to spin a while for the next call was measured, and gains nothing where
// processors are few.
//
// The locks and threads are libuv's: those of the C and C++ libraries would ask for later versions
// of these than all the rest here.
class OwnThreads {
 public:
  OwnThreads() {
    uv_mutex_init(&mutex_);
    uv_cond_init(&came_);
  }

  ~OwnThreads() {
    uv_cond_destroy(&came_);
    uv_mutex_destroy(&mutex_);
  }

  // What is taken is carried out, whatever becomes of the environment.
  void take(Napi::Env env, std::unique_ptr<Errand> errand, Rank rank) {
    if (!prepare(env)) {
      // As pthread_create(3) has it.
      errand->refuse("pthread_create", EAGAIN);
      errand->settle(env);
      return;
    }
    if (under_way_ == 0) napi_ref_threadsafe_function(env, settle_);
    under_way_ += 1;
    uv_mutex_lock(&mutex_);
    lines_[rank].push(errand.release());
    if (runnable() > idle_) start_thread();
    uv_mutex_unlock(&mutex_);
    // Only now: whoever wakes up takes the mutex first.
    uv_cond_signal(&came_);
  }

 private:
  // More forces, so that a store on a slow device does not hold up those of another. Each finds a
  // thread, however many there are of the other ranks.
  static constexpr size_t kThreadsMax = 3 + 2 + 2 + 2;

  // Makes sure that there is a thread.
  bool prepare(Napi::Env env) {
    if (thread_count_ > 0) return true;
    if (settle_ == nullptr && !prepare_to_settle(env)) return false;
    uv_mutex_lock(&mutex_);
    start_thread();
    uv_mutex_unlock(&mutex_);
    return thread_count_ > 0;
  }

  bool prepare_to_settle(Napi::Env env) {
    Napi::String name = Napi::String::New(env, "forcelog");
    napi_status status =
        napi_create_threadsafe_function(env, nullptr, nullptr, name, 0, 1, nullptr, nullptr, this,
                                        &OwnThreads::settle, &settle_);
    if (status != napi_ok) return false;
    napi_unref_threadsafe_function(env, settle_);
    // The hooks run from the last to the first: this one before that of the function, which no
    // thread may call any more after that.
    napi_add_env_cleanup_hook(env, &OwnThreads::end, this);
    return true;
  }

  // If there can be no more, those that there are go on.
  void start_thread() {
    if (thread_count_ == kThreadsMax) return;
    auto run = [](void* self) { static_cast<OwnThreads*>(self)->run(); };
    if (uv_thread_create(&threads_[thread_count_], run, this) != 0) return;
    thread_count_ += 1;
    idle_ += 1;
  }

  size_t runnable() const {
    size_t count = 0;
    for (const Line& line : lines_) count += line.runnable();
    return count;
  }

  void run() {
    uv_mutex_lock(&mutex_);
    for (;;) {
      while (runnable() == 0 && !ended_) uv_cond_wait(&came_, &mutex_);
      if (runnable() == 0) break;
      Line& line = *std::find_if(lines_, lines_ + kRanks,
                                 [](const Line& one) { return one.runnable() > 0; });
      Errand* errand = line.begin();
      idle_ -= 1;
      uv_mutex_unlock(&mutex_);
      errand->run();
      napi_call_threadsafe_function(settle_, errand, napi_tsfn_nonblocking);
      uv_mutex_lock(&mutex_);
      line.ended();
      idle_ += 1;
    }
    uv_mutex_unlock(&mutex_);
  }

  // On JavaScript's thread, once for each errand; without `env` if it ends before it is told.
  static void settle(napi_env env, napi_value, void* context, void* data) {
    std::unique_ptr<Errand> errand(static_cast<Errand*>(data));
    if (env == nullptr) return;
    OwnThreads* self = static_cast<OwnThreads*>(context);
    self->under_way_ -= 1;
    if (self->under_way_ == 0) napi_unref_threadsafe_function(env, self->settle_);
    errand->settle(env);
  }

  // The environment ends: what was taken is carried out, and nobody will hear of it.
  static void end(void* data) {
    OwnThreads* self = static_cast<OwnThreads*>(data);
    uv_mutex_lock(&self->mutex_);
    self->ended_ = true;
    uv_cond_broadcast(&self->came_);
    uv_mutex_unlock(&self->mutex_);
    for (size_t i = 0; i < self->thread_count_; i++) uv_thread_join(&self->threads_[i]);
    napi_release_threadsafe_function(self->settle_, napi_tsfn_abort);
  }

  // On JavaScript's thread alone.
  napi_threadsafe_function settle_ = nullptr;
  size_t under_way_ = 0;
  uv_thread_t threads_[kThreadsMax];
  size_t thread_count_ = 0;

  // Under the mutex.
  uv_mutex_t mutex_;
  uv_cond_t came_;
  Line lines_[kRanks] = {Line(3), Line(2), Line(2), Line(2)};
  size_t idle_ = 0;
  bool ended_ = false;
};

// On the threads of our own.
auto own_thread(Napi::Env env, Rank rank) {
  return [env, rank](std::unique_ptr<Errand> errand) {
    env.GetInstanceData<OwnThreads>()->take(env, std::move(errand), rank);
  };
}

// kept: what must not be collected before the work is done.
template <typename Work>
Napi::Value on_own_thread(Napi::Env env, Rank rank, Answer answer, Work work,
                          Napi::Array kept = Napi::Array()) {
  return submit<ErrandOf<Work>>(env, own_thread(env, rank), answer, kept, std::move(work));
}

// The buffers of a write.
struct Buffers {
  std::vector<iovec> parts;
  ssize_t length = 0;
  // Notes them one by one in an array of our own, so that they stay alive whatever the caller does
  // with his.
  Napi::Array kept;
};

Buffers buffers_of(Napi::Env env, Arguments* arguments, size_t index) {
  Buffers buffers;
  Napi::Array given = arguments->array(index, "buffers");
  uint32_t count = arguments->ok() ? given.Length() : 0;
  buffers.kept = Napi::Array::New(env, count);
  buffers.parts.resize(count);
  for (uint32_t i = 0; i < count && arguments->ok(); i++) {
    Napi::Value value = given[i];
    buffers.kept[i] = value;
    buffers.parts[i] = arguments->memory_of(value);
    buffers.length += static_cast<ssize_t>(buffers.parts[i].iov_len);
  }
  return buffers;
}

Outcome write_all(int fd, const std::vector<iovec>& parts, int64_t position) {
  return make("pwritev", [&] {
    return pwritev(fd, parts.data(), static_cast<int>(parts.size()), position);
  });
}

Napi::Value Pwritev(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  int fd = arguments.fd(0);
  Buffers buffers = buffers_of(info.Env(), &arguments, 1);
  int64_t position = arguments.bytes(2, "position");
  if (!arguments.ok()) return Napi::Value();
  auto work = [fd, position, parts = std::move(buffers.parts)] {
    return write_all(fd, parts, position);
  };
  return on_own_thread(info.Env(), kWrite, Answer::kResult, std::move(work), buffers.kept);
}

Napi::Value PwritevThenFdatasync(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  int fd = arguments.fd(0);
  Buffers buffers = buffers_of(info.Env(), &arguments, 1);
  int64_t position = arguments.bytes(2, "position");
  if (!arguments.ok()) return Napi::Value();
  auto work = [fd, position, length = buffers.length, parts = std::move(buffers.parts)] {
    Outcome written = write_all(fd, parts, position);
    if (written.result != length) return written;
    Outcome synced = make("fdatasync", [&] { return fdatasync(fd); });
    return synced.errnum == 0 ? written : synced;
  };
  return on_own_thread(info.Env(), kForce, Answer::kResult, std::move(work), buffers.kept);
}

Napi::Value Fdatasync(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  int fd = arguments.fd(0);
  if (!arguments.ok()) return Napi::Value();
  return on_own_thread(info.Env(), kSync, Answer::kNothing, [fd] {
    return make("fdatasync", [fd] { return fdatasync(fd); });
  });
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
  return on_pool(info.Env(), Answer::kNothing, [=] {
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
  return on_pool(info.Env(), Answer::kNothing, [=] {
    return Outcome{"posix_fadvise", 0, posix_fadvise(fd, position, length, advice)};
  });
}

Napi::Value LseekData(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  int fd = arguments.fd(0);
  int64_t position = arguments.bytes(1, "position");
  if (!arguments.ok()) return Napi::Value();
  return on_pool(info.Env(), Answer::kResult, [=] {
    Outcome found = make("lseek", [=] { return lseek(fd, position, SEEK_DATA); });
    // No data there or behind.
    if (found.errnum == ENXIO) found.errnum = 0;
    return found;
  });
}

// ---- Many calls in one hop ----------------------------------------------------------------------

// Calls of files and directories go to a thread as one text and come back as one: to make objects of
// Node-API, one by one, takes longer than the calls.

// Appends a text as JSON has it; bytes that are no UTF-8 are left to the reader.
void append_json(std::string* json, const char* text) {
  *json += '"';
  for (; *text != '\0'; text++) {
    auto byte = static_cast<unsigned char>(*text);
    char escape[8];
    if (byte < 0x20) {
      snprintf(escape, sizeof escape, "\\u%04x", byte);
      *json += escape;
      continue;
    }
    if (byte == '"' || byte == '\\') *json += '\\';
    *json += *text;
  }
  *json += '"';
}

const char* kind_of(unsigned char type) {
  if (type == DT_REG) return "file";
  if (type == DT_DIR) return "directory";
  return type == DT_LNK ? "link" : "other";
}

std::string json_of(const struct stat& found) {
  char json[256];
  snprintf(json, sizeof json,
           "{\"kind\":\"%s\",\"size\":%lld,\"allocatedBytes\":%lld,"
           "\"identity\":\"%llu:%llu\",\"mtimeMs\":%lld}",
           kind_of(IFTODT(found.st_mode)), static_cast<long long>(found.st_size),
           static_cast<long long>(found.st_blocks) * 512,
           static_cast<unsigned long long>(found.st_dev),
           static_cast<unsigned long long>(found.st_ino),
           static_cast<long long>(found.st_mtim.tv_sec) * 1000 + found.st_mtim.tv_nsec / 1000000);
  return json;
}

// The names in a directory in their order, as JSON, and with `stats` what stat tells of files.
Outcome list_directory(const char* path, bool stats, std::string* json) {
  DIR* directory = opendir(path);
  if (directory == nullptr) return {"readdir", -1, errno};
  std::vector<std::pair<std::string, std::string>> entries;
  errno = 0;
  while (const dirent* entry = readdir(directory)) {
    const char* name = entry->d_name;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
    unsigned char type = entry->d_type;
    struct stat found;
    bool is_found = false;
    if (type == DT_UNKNOWN || (stats && type == DT_REG)) {
      is_found = fstatat(dirfd(directory), name, &found, AT_SYMLINK_NOFOLLOW) == 0;
      if (type == DT_UNKNOWN && !is_found) break;
      if (is_found) type = IFTODT(found.st_mode);
    }
    std::string rest = std::string(",\"kind\":\"") + kind_of(type) + "\"";
    if (stats && is_found && type == DT_REG) rest += ",\"stat\":" + json_of(found);
    entries.emplace_back(name, rest);
    errno = 0;
  }
  Outcome outcome = {"readdir", 0, errno};
  closedir(directory);
  std::sort(entries.begin(), entries.end());
  *json = "[";
  for (const auto& [name, rest] : entries) {
    *json += json->size() > 1 ? ",{\"name\":" : "{\"name\":";
    append_json(json, name.c_str());
    *json += rest + "}";
  }
  *json += "]";
  return outcome;
}

// Where data may lie from `position` on, or the end of the file: `json` is null if nobody can tell.
Outcome next_data(int fd, int64_t position, std::string* json) {
  Outcome found = make("lseek", [=] { return lseek(fd, position, SEEK_DATA); });
  // A file system that knows no SEEK_DATA.
  if (found.errnum == EINVAL || found.errnum == ENOSYS || found.errnum == EOPNOTSUPP) {
    *json = "null";
    return {"lseek", 0, 0};
  }
  if (found.errnum != ENXIO) return found;
  // No data there or behind.
  struct stat file;
  Outcome outcome = make("fstat", [&] { return fstat(fd, &file); });
  if (outcome.errnum == 0) outcome.result = file.st_size;
  return outcome;
}

// Nothing happened if it could not be opened: `json` is null then.
Outcome sync_directory(const char* path, std::string* json) {
  Outcome opened = make("open", [=] { return open(path, O_RDONLY | O_CLOEXEC); });
  if (opened.errnum != 0) {
    *json = "null";
    return {"open", 0, 0};
  }
  int fd = static_cast<int>(opened.result);
  Outcome synced = make("fsync", [=] { return fsync(fd); });
  close(fd);
  return synced;
}

// One call of those that CallEach takes. `json` is what it answers, if that is no number.
Outcome make_call(char letter, int number, const char* text, const char* more, std::string* json) {
  struct stat found;
  Outcome outcome = {"call", -1, ENOSYS};
  switch (letter) {
    case 'o':
      return make("open", [=] { return open(text, number | O_CLOEXEC, 0644); });
    case 's':
      outcome = make("stat", [&] { return stat(text, &found); });
      if (outcome.errnum == 0) *json = json_of(found);
      return outcome;
    case 'f':
      outcome = make("fstat", [&] { return fstat(number, &found); });
      if (outcome.errnum == 0) *json = json_of(found);
      return outcome;
    case 'r':
      return list_directory(text, number != 0, json);
    case 'h':
      return next_data(number, strtoll(text, nullptr, 10), json);
    case 't':
      return make("ftruncate", [=] { return ftruncate(number, strtoll(text, nullptr, 10)); });
    case 'm':
      return make("rename", [=] { return rename(text, more); });
    case 'k':
      return make("mkdir", [=] { return mkdir(text, 0777); });
    case 'x':
      return make("rmdir", [=] { return rmdir(text); });
    case 'u':
      return make("unlink", [=] { return unlink(text); });
    case 'd':
      return sync_directory(text, json);
    case 'c':
      // Not again if it is interrupted: the number may be another file's by then.
      return {"close", 0, close(number) == 0 || errno == EINTR ? 0 : errno};
  }
  return outcome;
}

// What the calls answer, as JSON.
std::string call_each(const std::string& calls) {
  std::string answers = "[";
  for (const char* at = calls.c_str(); at < calls.c_str() + calls.size(); at += strlen(at) + 1) {
    char letter = *at;
    char* number_end;
    int number = static_cast<int>(strtol(at + 1, &number_end, 10));
    const char* text = number_end + (*number_end == ' ' ? 1 : 0);
    // A second text is a line of its own.
    if (letter == 'm') at += strlen(at) + 1;
    std::string json;
    Outcome outcome = make_call(letter, number, text, at, &json);
    if (answers.size() > 1) answers += ",";
    if (outcome.errnum != 0) answers += std::to_string(-outcome.errnum);
    else answers += json.empty() ? std::to_string(outcome.result) : json;
  }
  return answers + "]";
}

class CallsErrand final : public Errand {
 public:
  CallsErrand(napi_deferred deferred, std::string calls)
      : Errand(deferred, Answer::kResult, Napi::Array()), calls_(std::move(calls)) {}

 private:
  Outcome work() override {
    answers_ = call_each(calls_);
    return {nullptr, 0, 0};
  }

  Napi::Value value(Napi::Env env) override { return Napi::String::New(env, answers_); }

  std::string calls_;
  std::string answers_;
};

Napi::Value CallEach(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  std::string calls = arguments.text(0);
  if (!arguments.ok()) return Napi::Value();
  return submit<CallsErrand>(info.Env(), own_thread(info.Env(), kCall), std::move(calls));
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

// Ranges of a file, one behind the other into the buffer: many records that lie apart cost one call
// from JavaScript. It ends at the first that is not in the page cache as a whole.
Napi::Value PreadEachNoWait(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  int fd = arguments.fd(0);
  iovec buffer = arguments.memory(1);
  iovec ranges = arguments.doubles(2);
  if (!arguments.ok()) return Napi::Value();
  const double* range = static_cast<const double*>(ranges.iov_base);
  const double* end = range + ranges.iov_len / 2 * 2;
  char* at = static_cast<char*>(buffer.iov_base);
  char* limit = at + buffer.iov_len;
  uint32_t done = 0;
  for (; range < end; range += 2, done++) {
    bool fits = range[0] >= 0 && range[0] < 0x1p53 && range[1] >= 0 && range[1] <= limit - at;
    if (!fits) break;
    iovec part = {at, static_cast<size_t>(range[1])};
    ssize_t result = preadv2(fd, &part, 1, static_cast<int64_t>(range[0]), RWF_NOWAIT);
    if (result < 0 || static_cast<size_t>(result) != part.iov_len) break;
    at += result;
  }
  return Napi::Number::New(info.Env(), done);
}

#endif  // RWF_NOWAIT

#ifdef FORCELOG_CRC32

// A put and a read make this call for each record: straight from Node-API.
napi_value Crc32(napi_env env, napi_callback_info info) {
  size_t argc = 4;
  napi_value argv[4];
  napi_typedarray_type type;
  size_t length;
  void* bytes;
  uint32_t start;
  uint32_t end;
  uint32_t seed;
  bool ok = napi_get_cb_info(env, info, &argc, argv, nullptr, nullptr) == napi_ok && argc == 4 &&
            napi_get_typedarray_info(env, argv[0], &type, &length, &bytes, nullptr, nullptr) ==
                napi_ok &&
            type == napi_uint8_array && napi_get_value_uint32(env, argv[1], &start) == napi_ok &&
            napi_get_value_uint32(env, argv[2], &end) == napi_ok &&
            napi_get_value_uint32(env, argv[3], &seed) == napi_ok && start <= end && end <= length;
  if (!ok) {
    napi_throw_range_error(env, nullptr, "Cannot compute a CRC: it takes bytes, start, end, seed");
    return nullptr;
  }
  napi_value result = nullptr;
  const uint8_t* from = static_cast<const uint8_t*>(bytes) + start;
  napi_create_uint32(env, crc32::of(seed, from, end - start), &result);
  return result;
}

records::Text text_of(const iovec& part) {
  const uint8_t* from = static_cast<const uint8_t*>(part.iov_base);
  return {from, from + part.iov_len};
}

// What is looked through takes longer than any check of arguments.
Napi::Value CheckRecords(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  iovec memory = arguments.memory(0);
  int64_t start = arguments.bytes(1, "start");
  int64_t offset = arguments.bytes(2, "offset");
  iovec table = arguments.doubles(4);
  if (!arguments.ok()) return Napi::Value();
  bool check_crc = info[3].ToBoolean();
  size_t count = 0;
  if (static_cast<uint64_t>(start) <= memory.iov_len) {
    count = records::run(text_of(memory), static_cast<size_t>(start), offset,
                         check_crc, static_cast<records::Row*>(table.iov_base),
                         table.iov_len * sizeof(double) / sizeof(records::Row));
  }
  return Napi::Number::New(info.Env(), static_cast<double>(count));
}

Napi::Value CheckPlaces(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  iovec memory = arguments.memory(0);
  iovec table = arguments.doubles(1);
  size_t count = static_cast<size_t>(arguments.bytes(2, "count"));
  iovec topic = arguments.memory(3);
  int64_t queue_id = arguments.bytes(4, "queueId");
  if (!arguments.ok()) return Napi::Value();
  bool check_crc = info[5].ToBoolean();
  size_t whole = 0;
  if (queue_id <= INT32_MAX) {
    const size_t room = table.iov_len * sizeof(double) / sizeof(records::Place);
    whole = records::each(text_of(memory), static_cast<const records::Place*>(table.iov_base),
                          std::min(count, room), text_of(topic), static_cast<int32_t>(queue_id),
                          check_crc);
  }
  return Napi::Number::New(info.Env(), static_cast<double>(whole));
}

#endif  // FORCELOG_CRC32

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

void add_raw(Napi::Object exports, const char* name, napi_callback call) {
  napi_value function = nullptr;
  napi_create_function(exports.Env(), name, NAPI_AUTO_LENGTH, call, nullptr, &function);
  exports.Set(name, Napi::Value(exports.Env(), function));
}

Napi::Object init(Napi::Env, Napi::Object exports) {
#ifdef __linux__
  exports.Env().SetInstanceData(new OwnThreads);
  add<Pwritev>(exports, "pwritev");
  add<PwritevThenFdatasync>(exports, "pwritevThenFdatasync");
  add<Fdatasync>(exports, "fdatasync");
  add<Fallocate>(exports, "fallocate");
  add<PosixFadvise>(exports, "posixFadvise");
  add<LseekData>(exports, "lseekData");
  add<CallEach>(exports, "callEach");
#endif
#ifdef RWF_NOWAIT
  add<Preadv2NoWait>(exports, "preadv2NoWait");
  add<PreadEachNoWait>(exports, "preadEachNoWait");
#endif
#ifdef FORCELOG_CRC32
  if (crc32::is_supported()) {
    add_raw(exports, "crc32", Crc32);
    add<CheckRecords>(exports, "checkRecords");
    add<CheckPlaces>(exports, "checkPlaces");
  }
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
