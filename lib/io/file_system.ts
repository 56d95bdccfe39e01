/**
 * The seam: every system call that the store makes, and nothing else.
 *
 * Everything above floor 0 takes a {@linkcode FileSystem} as an argument, so that a test can count
 * the calls, fail any of them, hold one back for ever, or cut the power between two of them.
 * Method names and argument order are those of the man pages. Calls are asynchronous and run on a
 * thread unless their name says otherwise (`pwritevNow`, `preadIfCached`).
 *
 * Errors are Node's: an `Error` with `code` (`"ENOSPC"`), `errno`, `syscall` and `path`.
 *
 * @module
 */

/**
 * How to open a file.
 *
 * - `"read"`: `O_RDONLY`.
 * - `"write"`: `O_RDWR`, the file must exist.
 * - `"create"`: `O_RDWR | O_CREAT | O_EXCL`, the file must not exist (`EEXIST`).
 */
export type OpenMode = "read" | "write" | "create";

/** What `stat` tells of a path. */
export interface FileStat {
  readonly kind: "file" | "directory" | "other";
  /** Length in bytes. */
  readonly size: number;
  /** Space taken on the device, in bytes (`st_blocks × 512`); less than `size` in a sparse file. */
  readonly allocatedBytes: number;
  /** Device and inode as one text: equal for two names of the same file, and for nothing else. */
  readonly identity: string;
  /** Last change of the content, in ms since the epoch. */
  readonly mtimeMs: number;
}

/** One name in a directory. */
export interface DirectoryEntry {
  readonly name: string;
  readonly kind: "file" | "directory" | "other";
  /** Of a file, if it was asked for, and if to tell it took no call of its own. */
  readonly stat?: FileStat;
}

/** What `statfs` tells of a file system, in bytes. */
export interface FileSystemSpace {
  readonly totalBytes: number;
  readonly freeBytes: number;
  /** Free for an unprivileged process. */
  readonly availableBytes: number;
}

/** Advice of `posix_fadvise(2)`. */
export type Advice = "normal" | "sequential" | "random" | "willneed" | "dontneed";

/** An open file. One owner; after `close` every call rejects with `EBADF`. */
export interface FileHandle {
  /** The name that it was opened by. It may have been renamed since. */
  readonly path: string;

  /**
   * `pwritev(2)`: writes the buffers one after the other, from `position` on. The kernel may take
   * fewer bytes than given: see `fully.ts` for the loop. The caller must leave the buffers
   * unchanged until the promise settles.
   *
   * @param position Bytes from the start of the file.
   * @returns Bytes written, from 1 to the sum of the lengths (0 only for no bytes at all).
   */
  pwritev(buffers: readonly Uint8Array[], position: number): Promise<number>;

  /**
   * The same, at once on the calling thread. Only for a few KiB that go to the page cache
   * (2-3 µs): the caller bounds the bytes per turn of the event loop.
   */
  pwritevNow(buffers: readonly Uint8Array[], position: number): number;

  /**
   * `pread(2)` into `buffer`.
   *
   * @returns Bytes read; fewer than asked at the end of the file, 0 at or behind it.
   */
  pread(buffer: Uint8Array, position: number): Promise<number>;

  /**
   * `preadv2(2)` with `RWF_NOWAIT`, at once on the calling thread: reads what lies in the page
   * cache and never waits for a device.
   *
   * @returns Bytes read (it may be fewer than asked: what was cached), 0 at the end of the file, or
   *   -1 if nothing at `position` is cached or this system can't tell.
   */
  preadIfCached(buffer: Uint8Array, position: number): number;

  /**
   * {@linkcode FileHandle.preadIfCached} for many ranges, one behind the other into `buffer`.
   *
   * @param ranges Of each its position and its length, which is above 0; `buffer` has room for all.
   * @returns How many ranges were read as a whole: those before the first that was not.
   */
  preadEachIfCached(buffer: Uint8Array, ranges: Float64Array): number;

  /**
   * `lseek(2)` with `SEEK_DATA`: where reading may find something other than zeros.
   *
   * @returns The first position at or behind `position` that may hold data, which is `position`
   *   itself where this system can't tell; the file's size if there is only a hole or nothing.
   */
  nextData(position: number): Promise<number>;

  /** `fdatasync(2)`: what was written, and the size, survive a power cut once this resolves. */
  fdatasync(): Promise<void>;

  /**
   * Writes as {@linkcode FileHandle.pwritev} does and, if every byte was taken, goes on with
   * `fdatasync`, in one hop to the thread.
   *
   * @returns Bytes written. Fewer than given means that nothing was synced: write the rest.
   */
  commitAndForce(buffers: readonly Uint8Array[], position: number): Promise<number>;

  /** `ftruncate(2)`: sets the length; new bytes read as zero and take no space. */
  ftruncate(size: number): Promise<void>;

  /**
   * `fallocate(2)`: reserves blocks for the range, so that a later write can't fail with `ENOSPC`.
   * @throws `EOPNOTSUPP` where the file system or this build can't; that is no failure of the file.
   */
  allocate(position: number, length: number): Promise<void>;

  /**
   * `fallocate(2)` with `FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE`: the range reads as zero
   * afterwards and takes no space.
   * @throws `EOPNOTSUPP` where the file system or this build can't: write zeros instead.
   */
  punch(position: number, length: number): Promise<void>;

  /** `posix_fadvise(2)`. A hint: does nothing where there is no such call. `length` 0: to the end. */
  advise(position: number, length: number, advice: Advice): Promise<void>;

  stat(): Promise<FileStat>;

  /** Closes the file. Waits for calls of this handle that are under way. A second call does nothing. */
  close(): Promise<void>;
}

/** A lock that {@linkcode FileSystem.lock} took; held until it is closed or the process ends. */
export interface FileLock {
  /**
   * Whom the lock keeps out: `"ofd"` a Java broker (POSIX record lock) and every store of ours, in
   * this process or another; `"flock"` only stores of ours.
   */
  readonly excludes: "ofd" | "flock";
  /**
   * Writes `content` over the whole lock file, through the handle that holds the lock.
   *
   * The content survives a power cut once this resolves, the name once its directory is synced.
   */
  write(content: Uint8Array): Promise<void>;
  close(): Promise<void>;
}

/** Every call of the store that names a path. Paths are absolute. */
export interface FileSystem {
  open(path: string, mode: OpenMode): Promise<FileHandle>;
  /** One level; `EEXIST` if there is something of that name. */
  mkdir(path: string): Promise<void>;
  /** Removes an empty directory. */
  rmdir(path: string): Promise<void>;
  /**
   * Names in no particular order.
   *
   * @param more `"stats"`: the caller is going to look at each file.
   */
  readdir(path: string, more?: "stats"): Promise<DirectoryEntry[]>;
  /** @throws `ENOENT` if there is no such path. Follows symbolic links. */
  stat(path: string): Promise<FileStat>;
  statfs(path: string): Promise<FileSystemSpace>;
  /** Replaces a file of the new name, as `rename(2)` does. */
  rename(from: string, to: string): Promise<void>;
  unlink(path: string): Promise<void>;
  /** `fsync(2)` of a directory: its names survive a power cut once this resolves. */
  syncDirectory(path: string): Promise<void>;

  /**
   * Opens `path` (creating it empty if need be) and takes an exclusive lock on it, without waiting.
   * Never empties or replaces the file.
   *
   * @throws `EAGAIN` if another holds it, with `holderPid` where the kernel tells (a POSIX lock of
   *   another process); `ENOLCK` if this system offers no lock at all.
   */
  lock(path: string): Promise<FileLock>;
}
