import java.io.ByteArrayInputStream;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;

/** The numbered script. */
final class Script {
    private static final String INSERT = "INSERT INTO kinds (id,i8,i16,i32,i64,u8,u16,u32,u64,f,d,n,dt,ts,ti,s,b) "
            + "VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
    private final Client client;
    private final Connection c;
    private long thread;

    Script(Client client, Connection c) {
        this.client = client;
        this.c = c;
    }

    /** A body that may fail with an error of the server, which is part of what was seen. */
    private interface Body {
        void run(Seen seen) throws SQLException;
    }

    private void step(int step, String word, String text, Body body) {
        Seen seen = new Seen(step, thread, word);
        if (text != null) {
            seen.put("text", text);
        }
        try {
            body.run(seen);
            seen.put("error", 0);
        } catch (SQLException e) {
            seen.put("error", e.getErrorCode());
        }
        seen.say();
    }

    void run() throws SQLException {
        try (Statement s = c.createStatement(); ResultSet r = s.executeQuery("SELECT CONNECTION_ID()")) {
            r.next();
            thread = r.getLong(1);
        }
        new Seen(1, thread, "Connect").put("user", "ann").put("db", "shop").say();
        if (client.options.containsKey("charset")) {
            query(2, "SELECT '\u4e2d\u6587', '\u8a93'");
            return;
        }
        query(3, "TRUNCATE TABLE kinds");
        inserts();
        batch();
        longData();
        selects();
        errors();
        results();
        session();
    }

    private void query(int step, String text) {
        step(step, "Query", text, seen -> {
            try (Statement s = c.createStatement()) {
                drain(seen, s, s.execute(text));
            }
        });
    }

    /** Reads all results of a statement. */
    private static void drain(Seen seen, Statement s, boolean isRows) throws SQLException {
        long rows = 0;
        long affected = 0;
        while (isRows || s.getUpdateCount() >= 0) {
            if (isRows) {
                try (ResultSet r = s.getResultSet()) {
                    while (r.next()) {
                        rows++;
                    }
                }
            } else {
                affected += s.getUpdateCount();
            }
            isRows = s.getMoreResults();
        }
        seen.put("rows", rows).put("affected", affected);
    }

    private interface Bind {
        void values(Values v) throws SQLException;
    }

    /** The word of a statement with parameters: without prepared statements its text on the wire is the driver's own. */
    private String word() {
        return client.prepared ? "Execute" : "Interpolated";
    }

    private void execute(int step, PreparedStatement p, String text, Bind bind) {
        step(step, word(), text, seen -> {
            Values v = new Values(p, client.mariadb);
            bind.values(v);
            seen.params(v.texts);
            drain(seen, p, p.execute());
        });
    }

    private void inserts() throws SQLException {
        byte[] all = new byte[256];
        for (int i = 0; i < all.length; i++) {
            all[i] = (byte) i;
        }
        try (PreparedStatement p = c.prepareStatement(INSERT)) {
            execute(10, p, INSERT, v -> v.integer(1).integer(-128).integer(-32768).integer(-2147483648L).integer(Long.MIN_VALUE)
                    .integer(255).integer(65535).integer(4294967295L).decimal("18446744073709551615").real(1.5f, -2.25e-10)
                    .decimal("-12345678901234567890.123456").date("2024-02-29").timestamp("2024-02-29 23:59:58.123456")
                    .time("08:07:06").string("it's \"quoted\", a \\ and a ?").bytes(all));
            execute(11, p, INSERT, v -> v.integer(2).integer(127).integer(32767).integer(2147483647).integer(Long.MAX_VALUE)
                    .integer(0).integer(1).integer(2).integer(3).real(-0.0f, 1e300).decimal("0.000001").date("1000-01-01")
                    .timestamp("9999-12-31 00:00:00").string("-30:00:01.000005").string("").bytes(new byte[0]));
            execute(12, p, INSERT, v -> v.integer(3).nulls(16));
            execute(13, p, INSERT, v -> v.integer(4).nulls(1).integer(1).nulls(1).integer(2).nulls(1).integer(3).nulls(1).integer(4)
                    .nulls(1).decimal("0.5").nulls(4).string("d\u00e9 \u4e2d \ud83d\ude00").nulls(1));
            execute(14, p, INSERT, v -> v.integer(5).nulls(14).string("x".repeat(255)).bytes(all));
            execute(15, p, INSERT, v -> v.integer(6).nulls(14).string("m".repeat(client.size("mid"))).bytes(new byte[client.size("mid")]));
            execute(16, p, INSERT, v -> v.integer(7).nulls(14).string("B".repeat(client.size("big"))).nulls(1));
            execute(19, p, INSERT, v -> v.integer(3).nulls(16));
        }
    }

    /** A batch: one statement for each row, one for all, or MariaDB's bulk execute, as the url asks. */
    private void batch() {
        String text = "INSERT INTO loaded (a, b) VALUES (?, ?)";
        step(17, "Batch", text, seen -> {
            try (PreparedStatement p = c.prepareStatement(text)) {
                for (int i = 0; i < 5; i++) {
                    p.setInt(1, i);
                    p.setString(2, i == 3 ? null : "row " + i);
                    p.addBatch();
                }
                seen.put("count", p.executeBatch().length);
            }
        });
    }

    private void longData() {
        String text = "UPDATE kinds SET i8 = ?, b = ? WHERE id = ?";
        byte[] data = new byte[client.size("mid")];
        try (PreparedStatement p = c.prepareStatement(text)) {
            step(20, word(), text, seen -> {
                p.setInt(1, 9);
                p.setBinaryStream(2, new ByteArrayInputStream(data), data.length);
                p.setInt(3, 1);
                seen.put("affected", p.executeUpdate());
            });
            execute(21, p, text, v -> v.integer(8).bytes("short".getBytes()).integer(1));
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
    }

    private void selects() throws SQLException {
        String text = "SELECT * FROM kinds WHERE id < ? AND id > ? ORDER BY id";
        try (PreparedStatement p = c.prepareStatement(text)) {
            p.setFetchSize(2);
            execute(22, p, text, v -> v.integer(6).integer(0));
            execute(23, p, text, v -> v.integer(1).integer(5));
        }
        String literals = "SELECT id, '?', `s` /* ? */ FROM kinds WHERE s = ? OR s IS NULL -- ?";
        try (PreparedStatement p = c.prepareStatement(literals)) {
            execute(24, p, literals, v -> v.string(""));
        }
    }

    private void errors() {
        query(30, "SELEC 1");
        query(31, "SELECT * FROM nowhere");
        query(32, "INSERT INTO kinds (id) VALUES (1)");
        step(34, client.prepared ? "Prepare" : "Interpolated", "SELECT * FROM nowhere WHERE a = ?", seen -> {
            try (PreparedStatement p = c.prepareStatement("SELECT * FROM nowhere WHERE a = ?")) {
                p.setInt(1, 1);
                p.executeQuery();
            }
        });
    }

    private void results() {
        if (client.options.getOrDefault("url", "").contains("allowMultiQueries")) {
            query(40, "SELECT 1; INSERT INTO kinds (id) VALUES (50),(51); SELECT id FROM kinds WHERE id >= 50; INSERT INTO kinds (id) VALUES (52)");
        }
        query(41, "CALL several(4, @total)");
        step(42, "Called", "CALL several(?, ?)", seen -> {
            try (CallableStatement p = c.prepareCall("{CALL several(?, ?)}")) {
                p.setInt(1, 5);
                p.registerOutParameter(2, Types.INTEGER);
                p.execute();
                seen.put("out", p.getInt(2));
            }
        });
        // MariaDB Connector/J 3.5.6 waits forever for the answer to a compressed file.
        if (!client.mariadb || !client.options.get("url").contains("useCompression")) {
            query(43, "LOAD DATA LOCAL INFILE '" + client.options.get("file") + "' INTO TABLE loaded FIELDS TERMINATED BY ','");
        }
        query(44, "SELECT * FROM loaded");
    }

    private void session() throws SQLException {
        step(50, "Ping", null, seen -> c.isValid(5));
        step(51, client.mariadb ? "Init DB" : "Switch", "other", seen -> c.setCatalog("other"));
        query(52, "SELECT DATABASE()");
        step(58, "Refused", null, seen -> {
            seen.put("user", "ann");
            client.connect("ann", "wrong", "shop");
        });
        if (c instanceof com.mysql.cj.jdbc.JdbcConnection mysql) {
            step(53, "Change user", null, seen -> {
                seen.put("user", "bob").put("db", "other");
                mysql.changeUser("bob", "s3cret");
            });
            query(54, "SELECT USER(), DATABASE()");
            step(55, "Reset connection", null, seen -> mysql.resetServerState());
        }
        c.close();
        new Seen(60, thread, "Quit").say();
    }
}
