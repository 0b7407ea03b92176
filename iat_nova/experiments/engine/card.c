/* SPDX-License-Identifier: Apache-2.0
 *
 * Network cards: receive traffic through DDIO into rings, and send at line rate.
 */

enum { FRACTION_BITS = 52, EXPONENT_BIAS = 1023 }; /* of a double */

/* Return the packets of a stream due now: whole bursts of 1 to 2 burst - 1 packets. A burst is held back until complete,
 * then arrives at once. */
INLINE i64 due_packets(Stream *s, f64 credit) {
    if (s->burst == 1) return (i64)credit;
    i64 count = 0;
    while (credit >= (f64)(count + s->next)) {
        count += s->next;
        s->next = 1 + draw(&s->random) % (2 * s->burst - 1);
    }
    return count;
}

/* Let the packets of one step arrive at a socket's cards; a full ring drops packets. */
static void receive_packets(Nics *n, Rings *r, Caches *c, i64 socket, f64 seconds, i64 now_ns) {
    for (i64 stream = 0; stream < n->stream_count; stream++) {
        Stream *s = n->streams + stream;
        Ring *ring = r->state + s->ring;
        if (ring->socket != socket) continue;
        n->flow[stream].credit += n->flow[stream].packets_per_s * seconds;
        i64 count = due_packets(s, n->flow[stream].credit);
        n->flow[stream].credit -= (f64)count;
        s->offered += count;
        i64 room = min_i64(count, ring->posted - ring->done);
        ring->dropped += count - room;
        ring->passed += room;
        i64 sharers = r->pools[ring->pool].sharers, last = DATA_LINE + payload_lines(s->frame_bytes);
        /* Single packets arrive evenly over the step; bursts arrive at the start of the step. */
        i64 start_ns = now_ns - (i64)(seconds * 1e9);
        f64 apart_ns = s->burst == 1 ? seconds * 1e9 / (f64)max_i64(1, count) : 0.0;
        for (i64 number = 0; number < room; number++) {
            i64 buffer = *slot_of(r, s->ring, ring->done);
            ring->done++;
            i64 arrived_ns = start_ns + (i64)(((f64)number + 0.5) * apart_ns);
            r->packets[buffer] = (Packet){s->frame_bytes, arrived_ns, s->target, arrived_ns};
            for (i64 i = r->first[buffer]; i < r->first[buffer + 1]; i++)
                if (DATA_LINE <= r->lines[i].place && r->lines[i].place < last)
                    dma_write(c, r->lines[i].line, sharers, ring->dca);
        }
        ring->peak = max_i64(ring->peak, ring->done - ring->taken);
    }
}

/* Return the bin of a latency in the histogram. */
static i64 bin_of(i64 latency_ns) {
    f64 latency = (f64)max_i64(latency_ns, 1);
    i64 bits;
    memcpy(&bits, &latency, sizeof bits);
    return min_i64((bits >> (FRACTION_BITS - BIN_BITS)) - (EXPONENT_BIAS << BIN_BITS), BINS - 1);
}

/* Count a served packet. */
INLINE void count_served(Nics *n, i64 target, i64 size, i64 latency_ns) {
    n->served[target].packets += 1;
    n->served[target].bytes += (f64)size;
    n->served[target].latency_ns += (f64)latency_ns;
    n->latency[target * BINS + bin_of(latency_ns)]++;
}

/* Let every card send the bytes of one step at line rate; idle time is not saved up. */
static void grant_bytes(Nics *n, f64 seconds) {
    for (Card *card = n->ports; card < n->ports + n->port_count; card++)
        card->tx_credit = min_f64(card->tx_credit, 0.0) + card->bytes_per_s * seconds;
}

/* Send packets from the send rings of a socket's cards, as many bytes as grant_bytes gave. */
static void transmit_packets(Nics *n, Rings *r, Caches *c, i64 socket, i64 now_ns) {
    for (i64 queue = 0; queue < n->tx_count; queue++) {
        i64 number = n->tx[queue].ring;
        Card *card = n->ports + n->tx[queue].port;
        Ring *ring = r->state + number;
        if (ring->socket != socket) continue;
        i64 sharers = r->pools[ring->pool].sharers;
        f64 ns_per_byte = 1e9 / card->bytes_per_s;
        while (ring->done < ring->posted && card->tx_credit > 0) {
            Packet *packet = r->packets + *slot_of(r, number, ring->done);
            i64 buffer = packet - r->packets, size = packet->bytes, last = DATA_LINE + payload_lines(size);
            for (i64 i = r->first[buffer]; i < r->first[buffer + 1]; i++)
                if (DATA_LINE <= r->lines[i].place && r->lines[i].place < last) dma_read(c, r->lines[i].line, sharers);
            ring->done++;
            ring->passed++;
            /* The remaining credit gives the card's position in the step. */
            f64 free_ns = (f64)now_ns - card->tx_credit * ns_per_byte;
            card->tx_credit -= (f64)(size + OVERHEAD_BYTES);
            card->tx_bytes += (f64)size;
            f64 wire_ns = (f64)(size + OVERHEAD_BYTES) * ns_per_byte;
            f64 sent_ns = max_f64(free_ns, (f64)packet->ready_ns) + wire_ns;
            count_served(n, packet->target, size, (i64)sent_ns - packet->arrived_ns);
        }
    }
}
