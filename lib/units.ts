/**
 * The numbers that must not be mixed up, by name, and the constants that every room shares.
 *
 * The aliases are plain numbers on purpose: a caller passes and receives numbers. What a number
 * counts is in its type's name, and every signature uses these names.
 *
 * @module
 */

/** Bytes from the start of the whole commit log. RocketMQ: physical offset. 0 to 2^53 - 1. */
export type PhysicalOffset = number;

/** Bytes from the start of one file. */
export type FilePosition = number;

/** Entries (not bytes) from the start of one consume queue. RocketMQ: logical offset. */
export type QueueOffset = number;

/** The page of RocketMQ's commit and flush gates, in bytes (`MappedFile.OS_PAGE_SIZE`), whatever the real one is. */
export const OS_PAGE_SIZE = 4096;
