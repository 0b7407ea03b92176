/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's state, shared with Python: layout.py reads this file, so that each name and number has one place.
 *
 * A struct of pointers describes a dataclass of numpy arrays with the same name. Whole numbers after a pointer are the
 * lengths of the array's dimensions, in order. A struct of numbers is a row of an array (the last dimension).
 */
#ifndef STATE_H
#define STATE_H

#include <stdint.h>

typedef int8_t i8;
typedef int32_t i32;
typedef int64_t i64;
typedef uint32_t u32;
typedef uint64_t u64;
typedef double f64;

/* ------------------------------------------------------------------------------------------------ sets of a cache */

/* Ways that are compared at a time; rows of ways are padded to a multiple. Padding is empty and never replaced. */
enum { LANES = 16 };
/* A stamp is a clock and, in the low bits, LAST_WAY minus the way; the clock has room for 2^26 ticks. */
enum { WAY_BITS = 5, LAST_WAY = 31, CLOCK_LIMIT = 1 << 25, NEVER = 0x7fffffff };

/* ---------------------------------------------------------------------------------------------------------- ADCA */

/* The paper leaves the counter's width open: 4 bits are chosen. One set in 64 has a monitor: 16 of 1,024. */
enum { COUNTER_MAX = 15, SPACING_BITS = 6 };
/* Reads of a line that no device wrote. */
enum { OF_CORES = -1 };

/* `choice`: of the monitors' rooms the largest (0), the mean of largest and smallest (1), or the smallest (2); `left`:
 * the ways left for devices (P); `shift`: from a set's number to the number of its monitor; `priority`: whether
 * priority replacement holds. */
typedef struct { i64 choice, counter, left, shift, priority; } AdaptiveNumbers;
/* `line`: written by a device and read by no core yet, -1 for none; `deepest`: deepest hit since that write; `room`:
 * the monitor's P, -1 before the first. */
typedef struct { i64 line, deepest, room; } Watch;
/* A line of a monitor's directory, -1 for none, and the reads by cores since a device's write, or OF_CORES. */
typedef struct { i64 line, reads; } DirectoryEntry;

/* ADCA's monitors; none on a machine without ADCA. */
typedef struct {
    AdaptiveNumbers *numbers;
    Watch *watch; i64 monitors;
    i64 *stack; i64 stacks, ways; /* [monitor][position]: line, -1 for none */
    DirectoryEntry *directory;    /* [monitor][position] */
} Adaptive;

/* -------------------------------------------------------------------------------------------------------- caches */

/* The level that served an access; REMOTE is a cache of the other socket. */
enum { L2, LLC, PEER, MEMORY, REMOTE, LEVELS };
/* Rows of `forbidden`: DDIO's ways, the inclusive ways, then each core's mask, then the ways of each port. */
enum { DDIO, INCLUSIVE, MASKS };
/* An LLC entry is line << LINE_SHIFT and these bits; -1 is empty. */
enum { LINE_SHIFT = 3, DIRTY = 1, UNREAD = 2, SHARED = 4 };
/* An L2 entry is line << LINE_SHIFT, DIRTY and these bits. COPY: the LLC had a copy when the line came. SERVED: the
 * line moved here from the LLC. AHEAD: the streamer fetched the line from memory, and no instruction has used it. */
enum { COPY = 2, SERVED = 4, AHEAD = 6 };
/* A row of lines is divided by the number of slices with a reciprocal of so many bits. */
enum { RECIPROCAL_BITS = 36 };
/* Numbers of sampled lines from here on, as many again, belong to pages in drawn frames. */
enum { DRAWN_LINES = 1 << 27 };

typedef struct {
    i64 clock;          /* for LRU */
    i64 migrates;       /* whether the machine has inclusive ways */
    i64 slices, set_bits; /* of the LLC, and bits of a line that choose the set in a slice */
    i64 fills, adapts;  /* whether the LLC fills, and whether it has ADCA */
    i64 policy;         /* of the LLC's replacement, see replacement.h */
    i64 cores;          /* a bit for each core of this socket */
    i64 linked;         /* whether a second socket exists */
    i64 options;        /* whether the machine fills, has another policy, adapts, is linked, counts by port, or has rows beyond LANES */
    i64 streamer;       /* lead of L2's streamer in lines */
    i64 even_slices;    /* reciprocal of the slices if the slice hash is even, else 0 */
    i64 page_bits;      /* bits of a line's number that are its place in a page, see frame_of */
    i64 stream_lines;   /* lines after which L2's streamer begins */
    i64 ports;          /* whether traffic is counted by port */
} Registers;

/* Running counts of an LLC, in sampled lines. */
typedef struct {
    i64 ddio_hits, ddio_misses, dma_read_hits, dma_read_misses;
    i64 dma_memory_writes; /* DCA off, or refused by ADCA */
    i64 flushed;           /* LLC copies dropped because DCA is off, or by a device of the other socket */
    i64 filled, victims_placed, victims_merged, migrated;
    i64 moved;             /* from the LLC into an L2, or with L2's victim from the inclusive ways to the core's */
    i64 evicted, write_backs;
    i64 cleaned;           /* written back from the other socket's LLC when a core of this socket read the line */
    i64 leaked;            /* DMA-written lines evicted before a core's first access */
    i64 written_through;   /* DMA-written lines that also went to memory */
    i64 dma_write_backs;   /* the part of write_backs for which a device's write had to wait */
    i64 recalled;          /* copies in an L2 removed because the LLC's copy was evicted */
    i64 ddio_placed;       /* ddio_misses, and the ddio_hits on a line that only an L2 had */
    i64 useless;           /* lines that the streamer fetched from memory and L2 dropped unused */
} Totals;

/* What a slice's CHA counts. */
typedef struct { i64 hits, misses; } SliceCounts;
/* Lines from `first` to `end` are written by the device of `port`. */
typedef struct { i64 first, end, port; } Owned;

/* All caches of a socket. Sockets share l2, served, prefetched, owned and moved; clocks and totals are separate. `far`
 * is the other socket's LLC; with one socket it has no sets. */
typedef struct {
    i32 *l2; i64 cores, l2_sets, l2_rows, l2_ways;  /* [core][set][entry, stamp, the line's set of the LLC][way] */
    i32 *llc; i64 llc_sets, llc_rows, llc_ways;     /* [set][entry, stamp, of SHARED the core that took a copy][way] */
    i32 *forbidden;                                 /* [see DDIO][way]: 0 in the mask, NEVER outside */
    Registers *registers;
    i64 *served;                                    /* [core][level]: accesses that reached a tag array */
    i64 *prefetched;                                /* [core][level]: lines that L2's streamer fetched */
    Totals *totals;
    SliceCounts *ddio;                              /* [slice] */
    Adaptive *adaptive;
    i32 *far;
    Totals *far_totals;
    Owned *owned; i64 owned_count;                  /* in the order of lines */
    i64 *moved;                                     /* [port]: lines between memory and caches for the device */
} Caches;

/* -------------------------------------------------------------------------------------------------------- memory */

/* The cost of a write in reads, with the turnaround of the bus: 108 GB/s of reads, 91 with a quarter of writes, 89 with
 * a third, 75 with a half (FD.io CSIT's calibration data, as of QUEUEING). */
#define WRITE_COST 1.75

/* `seconds`, `lines` and `writes` (a part of lines) are as of the last update. */
typedef struct {
    f64 idle_cycles, bytes_per_s, seconds, lines, writes, bytes_per_line, smoothing;
} MemoryValues;

/* The memory of one socket. */
typedef struct {
    MemoryValues *values;
    f64 *load;    /* [0]: utilisation, 0..1 */
    f64 *latency; /* [level that served]: cycles */
} Memory;

/* --------------------------------------------------------------------------------------------------------- rings */

/* Layout of a buffer in DPDK: 64 B mempool header, 128 B rte_mbuf, 128 B headroom, 2,048 B data. A page has 4 KiB. */
enum { BUFFER_LINES = 37, PAGE_LINES = 64, MBUF_LINE = 1, DATA_LINE = 5 };
/* A sender reclaims when fewer descriptors than this number are free: the same number at a time, once per burst
 * (DPDK's tx_free_thresh and tx_rs_thresh; i40e_tx_free_bufs frees all together). */
enum { RECLAIM = 32 };
/* A receiver gives the device this number of new buffers at a time, before reading a burst, when more descriptors are
 * free (RTE_I40E_RXQ_REARM_THRESH of i40e's vector receive). */
enum { REARM = 32 };

/* A ring of a card's queue or a virtqueue. The owner posts buffers and takes buffers back; a device or a virtual switch
 * at the other end fills or empties the buffers (done). taken <= done <= posted <= taken + size; size is a power of
 * two. `socket`: of the card at the other end. `handoff` 1: between two threads of one owner, as DPDK's rte_ring: the
 * second thread takes the buffers that the first thread has posted, and no buffer is reclaimed. `empty_max`: maximum
 * number of empty buffers for the device; the rest of the size holds waiting packets. */
typedef struct {
    i64 posted, done, taken, size, pool, dropped, passed, peak, dca, socket, handoff, empty_max;
} Ring;
/* A mempool. `lifo` 1: the buffer freed last is used first (a stack handler, or the per-core caches in front of a ring
 * when one core allocates and frees); 0: in turn (a ring). `head` counts allocations, `tail` frees and the buffers at
 * the start. `sharers`: the cores that use the buffers, as bits. */
typedef struct { i64 lifo, head, tail, count, base, sharers, failed; } Pool;
/* The packet in a buffer. `ready_ns`: from when the next thread or card may take the packet. */
typedef struct { i64 bytes, arrived_ns, target, ready_ns; } Packet;
/* A sampled line of a buffer, and the number of this line in the buffer. */
typedef struct { i32 line, place; } BufferLine;

typedef struct {
    i32 *slots; i64 slot_rings, slot_count; /* [ring][slot]: buffer */
    Ring *state;
    Pool *pools;
    i32 *free;         /* [buffer]: free lists, one stretch per pool */
    i32 *first;        /* [buffer]: start of the buffer's lines in `lines`, one more entry at the end */
    BufferLine *lines;
    i32 *offsets;      /* [buffer]: number of the buffer's first line in its page */
    Packet *packets;   /* [buffer] */
} Rings;

/* --------------------------------------------------------------------------------------------------------- cards */

/* Latency histogram: each octave of nanoseconds has 32 bins of equal width, of 3 % or less, named by the exponent of a
 * double and the highest bits of its fraction. */
enum { BIN_BITS = 5, BINS = 40 << BIN_BITS };
/* Bytes on the wire beside the frame: preamble, start delimiter, inter-frame gap. */
enum { OVERHEAD_BYTES = 20 };

typedef struct { f64 packets_per_s, credit; } Flow;
/* `burst`: mean length of bursts; `next`: length of the next burst; `target`: the workload that gets the packets. */
typedef struct { i64 ring, frame_bytes, target, burst, offered, next, random; } Stream;
typedef struct { f64 bytes_per_s, tx_credit, tx_bytes; } Card;
typedef struct { i64 ring, port; } SendQueue;
typedef struct { f64 packets, bytes, latency_ns; } Served;

typedef struct {
    Flow *flow;
    Stream *streams; i64 stream_count; /* from the wire */
    Card *ports; i64 port_count;
    SendQueue *tx; i64 tx_count;       /* to the wire */
    Served *served;                    /* [target] */
    i64 *latency;                      /* [target][bin] */
} Nics;

/* ------------------------------------------------------------------------------------------------------- clients */

/* Requests that wait to be sent lie in slots of a microsecond. */
enum { SLOT_NS = 1000, DUE_SLOTS = 4096 };

/* `target`: the workload whose packets are replies; `seen`: replies so far; the requests use `streams` rows of
 * Nics.streams from `stream` on, in turn. */
typedef struct { i64 target, seen, stream, streams, next, round_trip_ns, random; } Loop;

typedef struct {
    Loop *loops; i64 loop_count;
    i64 *due; /* [loop][slot]: requests to be sent then */
} Clients;

/* --------------------------------------------------------------------------------------------------------- disks */

/* NVMe moves whole blocks page by page. */
enum { DISK_PAGE_BYTES = 4096, DISK_PAGE_LINES = 64 };

/* Seconds of the disk's time for a page and for a command; `credit_s`: seconds that may be spent. */
typedef struct { f64 page_s, command_s, credit_s, moved_bytes; } DiskRates;
/* `active` commands are in progress, with `pages` in total; with pages_max or more a queue begins no second command.
 * The disk has `queues` from first_queue on; `next` is the queue whose turn is next. */
typedef struct {
    i64 dca, medium_ns, random, active, pages, pages_max, drives, first_queue, queues, next;
} Disk;
/* The commands of one thread. `owner`: row of Nics.served; `lanes`: the queue to the disk's first drive; `fresh`:
 * number of commands that were never submitted; `completed` and `taken` count completions; `current`: the command that
 * the thread processes, -1 for none; `page`: the next page that the thread reads or (filling) writes. */
typedef struct {
    i64 disk, owner, first, fresh, block_pages, cores, lanes, completed, taken, current, page, filling;
} Job;
/* Numbers of commands submitted and begun so far, and of commands in progress. */
typedef struct { i64 submitted, started, under_way; } Queue;
typedef struct { i64 job, writes, moved, line, submitted_ns, queue; } Command;

typedef struct {
    DiskRates *rates;
    Disk *devices; i64 device_count;
    Job *jobs;
    Queue *queues;
    Command *commands;
    i32 *waiting; i64 waiting_queues, waiting_slots; /* [queue][slot]: commands that have not begun, in order */
    i32 *active; i64 active_disks, active_slots;     /* [disk][n]: commands in progress */
    i32 *done; i64 done_jobs, done_slots;            /* [job][slot]: commands done and not yet taken */
    i32 *job_of;                                     /* [thread] */
} Disks;

/* ------------------------------------------------------------------------------------------------------- threads */

enum { MEMORY_BOUND, POLLER, STORAGE };
/* Classes of accesses, each with a running mean of stall cycles and its own memory-level parallelism. */
enum { OWN, PACKET, COPY_FROM, COPY_TO, CLASSES };
/* A thread draws from a table of equally likely stretches. */
enum { SLOT_BITS = 8, SLOTS = 1 << SLOT_BITS };
/* Output of an input without a ring: the entry of the packet's target in `routes`, or none (served here). */
enum { BY_TARGET = -1, CONSUME = -2 };

/* `first_line`: start of the thread's own memory. `slot_mask` chooses among the thread's stretches: 0 for one stretch,
 * SLOTS - 1 for a whole table. */
typedef struct {
    i64 kind, core, random, first_line, slot_mask, writes_percent, pool, inputs, inputs_count, next;
} ThreadInts;

typedef struct {
    f64 credit_cycles;    /* cycles that may be spent; negative when a step overran */
    f64 access_credit;    /* due sampled accesses to own memory */
    f64 own_cycles;       /* own cycles per unit of work (an access, a packet) */
    f64 own_instructions;
    f64 duty;             /* 0..1: share of the time without sleep */
    f64 touches;          /* accesses to own memory per unit of work, without accesses that L1 serves */
    f64 payload_share;    /* 0..1: share of a packet's lines that the thread itself reads */
    f64 copy_cycles;      /* own cycles of copying a line */
    f64 spin_ipc;         /* instructions per cycle during empty polling */
    f64 reply_bytes;      /* size of a reply's frame; 0: the size of the request */
    f64 instructions, cycles;
    f64 work;             /* units of work done */
    f64 latency_cycles;   /* sum over sampled accesses to own memory */
    f64 latency_samples;
    f64 off_max_cycles;   /* the longest time off the core; 0: the thread never loses its core */
    f64 off_cycles;       /* remaining time off the core */
    f64 on_cycles;        /* time until the thread loses its core again */
    f64 payload_writes;   /* 1: payload that is read is also written (encryption in place) */
    f64 clock_ns;         /* the thread's position within a step */
    f64 idle_cycles;      /* of cycles: empty polling, or off the core */
    f64 off_every_cycles; /* mean time between two losses of the core */
    f64 running;          /* weight of one sampled access in the running means */
    f64 credible_lines;   /* sampled lines for which a burst's own mean counts as much as the running mean */
} ThreadFloats;

/* Sampled lines of the burst being served, and the sum of their stall cycles. */
typedef struct { f64 lines, stalled; } Burst;
/* An input of a poller: its ring, and the output of its packets: a ring, BY_TARGET or CONSUME; `stalls`: the row of the
 * input's running means. */
typedef struct { i64 ring, output, lane, stalls; } Input;
typedef struct { i32 first, lines; } Stretch;

typedef struct {
    ThreadInts *ints; i64 count;
    ThreadFloats *floats;
    f64 *stalls;        /* [row][class]: a row for each thread, then for each input */
    Burst *bursts;      /* [row][class] */
    f64 *overlap;       /* [thread][class]: misses served at a time */
    Input *inputs;
    i64 *routes; i64 route_targets, route_lanes; /* [target][lane]: output ring */
    Stretch *stretches; i64 stretch_threads, stretch_slots; /* [thread][slot] */
} Threads;

/* --------------------------------------------------------------------------------------------------- the machine */

/* `far...`: the second socket; with one socket the first socket again. Disks belong to the first socket. `delays`:
 * cycles by which each CPU's L2 misses are delayed (MBA). `delayed`: working space for the latencies of one CPU. */
typedef struct {
    Caches *caches;
    Memory *memory;
    Rings *rings;
    Nics *nics;
    Clients *clients;
    Disks *disks;
    Threads *threads;
    Caches *far_caches;
    Memory *far_memory;
    f64 *delays;
    f64 *delayed;
} State;

#endif
