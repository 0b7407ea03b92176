/* SPDX-License-Identifier: Apache-2.0
 *
 * Packet buffers, mempools and descriptor rings: see Ring. One form serves receive and send rings of a card's queues and
 * virtqueues.
 */

INLINE i32 *slot_of(Rings *r, i64 ring, i64 number) {
    return r->slots + ring * r->slot_count + (number & (r->state[ring].size - 1));
}

/* Tell whether a buffer belongs to a pool. */
INLINE int belongs(const Rings *r, i64 buffer, i64 pool) {
    i64 number = buffer - r->pools[pool].base;
    return 0 <= number && number < r->pools[pool].count;
}

/* Take a buffer out of a pool; -1 if the pool is empty. */
INLINE i64 allocate_buffer(Rings *r, i64 pool) {
    Pool *p = r->pools + pool;
    i64 available = p->tail - p->head;
    if (available <= 0) {
        p->failed++;
        return -1;
    }
    i64 place = p->lifo ? available - 1 : p->head % p->count;
    p->head++;
    return r->free[p->base + place];
}

/* Return a buffer to its pool. */
INLINE void release(Rings *r, i64 pool, i64 buffer) {
    Pool *p = r->pools + pool;
    i64 place = p->lifo ? p->tail - p->head : p->tail % p->count;
    r->free[p->base + place] = (i32)buffer;
    p->tail++;
}

/* Put a buffer on a ring that has room. */
INLINE void post(Rings *r, i64 ring, i64 buffer) {
    *slot_of(r, ring, r->state[ring].posted) = (i32)buffer;
    r->state[ring].posted++;
}

/* Return the number of buffers that the owner of a ring may still post. */
INLINE i64 vacant(const Ring *s) {
    return min_i64(s->size - (s->posted - s->taken), s->empty_max - (s->posted - s->done));
}

/* Post up to `count` empty buffers on a receive ring, as far as ring and pool allow. */
static void refill(Rings *r, i64 ring, i64 count) {
    for (i64 left = min_i64(count, vacant(r->state + ring)); left > 0; left--) {
        i64 buffer = allocate_buffer(r, r->state[ring].pool);
        if (buffer < 0) return;
        post(r, ring, buffer);
    }
}

/* Free up to RECLAIM of the buffers that a send ring's device has sent. */
static void reclaim(Rings *r, i64 ring) {
    Ring *s = r->state + ring;
    for (int count = 0; count < RECLAIM && s->taken != s->done; count++) {
        release(r, s->pool, *slot_of(r, ring, s->taken));
        s->taken++;
    }
}

/* Post a full buffer on a send ring; if the ring is full, drop the packet. */
INLINE void send_buffer(Rings *r, i64 ring, i64 buffer) {
    Ring *s = r->state + ring;
    if (s->posted - s->taken >= s->size) reclaim(r, ring);
    if (s->posted - s->taken >= s->size) {
        s->dropped++;
        release(r, s->pool, buffer);
        return;
    }
    post(r, ring, buffer);
}

/* Return the number of lines of a packet of `size` bytes. */
INLINE i64 payload_lines(i64 size) { return (size + 63) >> 6; }
