// What notes.py and notes.mjs do for the other contestants.

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;

final class Notes {
    private static final int LOT = 1000;
    private static final String LOTS = ".lots";
    private static final AtomicLong count = new AtomicLong();

    private Notes() {}

    interface Call {
        void run() throws Exception;
    }

    /** The database's address as the driver for it wants it; batches of inserts are sent as one. */
    static String address() {
        URI named = URI.create(System.getenv("DATABASE_URL"));
        String user = named.getUserInfo();
        String address = "jdbc:postgresql://" + named.getHost() + ":" + named.getPort() + named.getPath();
        return address + "?reWriteBatchedInserts=true&user=" + user;
    }

    static double wall() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now()) / 1e6;
    }

    static void noteJob() {
        long number = count.getAndIncrement();
        String name = String.valueOf(ProcessHandle.current().pid());
        if (number == 0) {
            append(name, "");
        } else if (number % LOT == 0) {
            append(name + LOTS, ".");
        }
    }

    static void noteStamp(double at) {
        byte[] line = String.format(Locale.ROOT, "%.3f\n", (wall() - at) * 1000).getBytes(StandardCharsets.US_ASCII);
        try {
            Stamps.FILE.write(ByteBuffer.wrap(line));
        } catch (IOException problem) {
            throw new IllegalStateException(problem);
        }
    }

    /** Open as long as the process lives, once there is a stamp. */
    private static final class Stamps {
        static final FileChannel FILE;

        static {
            try {
                FILE = FileChannel.open(folder().resolve("stamps"), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (IOException problem) {
                throw new IllegalStateException(problem);
            }
        }
    }

    private static void append(String name, String text) {
        try {
            Files.writeString(folder().resolve(name), text, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException problem) {
            throw new IllegalStateException(problem);
        }
    }

    private static Path folder() {
        return Path.of(System.getenv("BENCHMARK_NOTES"));
    }

    static void feed(Call call, int chunk, long backlog, double seconds) throws Exception {
        long brought = 0;
        double ends = wall() + seconds;
        while (wall() < ends) {
            if (brought - countJobs() < backlog) {
                call.run();
                brought += chunk;
            } else {
                Thread.sleep(5);
            }
        }
    }

    private static long countJobs() throws IOException {
        long total = 0;
        try (DirectoryStream<Path> found = Files.newDirectoryStream(folder(), "*" + LOTS)) {
            for (Path path : found) {
                total += LOT * Files.size(path);
            }
        }
        return total;
    }

    static void hammer(Call call, int chunk, int atOnce, double seconds) throws Exception {
        AtomicLong done = new AtomicLong();
        double used = processorTime();
        double began = wall();
        Callable<Void> caller = () -> {
            while (wall() - began < seconds) {
                call.run();
                done.addAndGet(chunk);
            }
            return null;
        };
        ExecutorService callers = Executors.newFixedThreadPool(atOnce);
        for (Future<Void> one : callers.invokeAll(IntStream.range(0, atOnce).mapToObj(place -> caller).toList())) {
            one.get();
        }
        callers.shutdown();
        double rate = done.get() / (wall() - began);
        double each = (processorTime() - used) * 1e6 / done.get();
        System.out.println(String.format(
            Locale.ROOT, "{\"rate\": %f, \"count\": %d, \"producer_us\": %f}", rate, done.get(), each));
    }

    private static double processorTime() {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime() / 1e9;
    }
}
